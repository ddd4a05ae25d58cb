package autostart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"

	"neuron/internal/atomicfile"
)

// plist is an entry as launchd has it.
type plist struct{ path string }

// label is the entry's name for launchd, and of its file.
const label = "network.neuron.tray"

func (p plist) read() (cmd []string, enabled, found bool, err error) {
	b, found, err := readFile(p.path)
	if err != nil || !found {
		return nil, false, false, err
	}
	cmd, enabled, err = parsePlist(b)
	return cmd, enabled, true, err
}

func (p plist) write(cmd []string) error {
	if err := os.MkdirAll(filepath.Dir(p.path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(p.path, makePlist(cmd))
}

func (p plist) remove() error { return removeFile(p.path) }

// makePlist writes the file. It has no KeepAlive: a tray that the user quits
// stays away.
func makePlist(cmd []string) []byte {
	var b bytes.Buffer
	b.WriteString(xml.Header)
	b.WriteString(`<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">` + "\n")
	b.WriteString("<plist version=\"1.0\">\n<dict>\n\t<key>Label</key>\n\t<string>" + label + "</string>\n\t<key>ProgramArguments</key>\n\t<array>\n")
	for _, s := range cmd {
		b.WriteString("\t\t<string>")
		_ = xml.EscapeText(&b, []byte(s)) // a buffer takes all
		b.WriteString("</string>\n")
	}
	b.WriteString("\t</array>\n\t<key>RunAtLoad</key>\n\t<true/>\n\t<key>LimitLoadToSessionType</key>\n\t<string>Aqua</string>\n</dict>\n</plist>\n")
	return b.Bytes()
}

// parsePlist reads the command and whether the entry is on: RunAtLoad is true
// and Disabled is not.
func parsePlist(raw []byte) (cmd []string, enabled bool, err error) {
	d := xml.NewDecoder(bytes.NewReader(raw))
	var key, text string
	var inText, load, disabled, array bool
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return cmd, load && !disabled && len(cmd) > 0, nil
		}
		if err != nil {
			return nil, false, errors.New("the entry is damaged")
		}
		switch tok := tok.(type) {
		case xml.StartElement:
			text, inText = "", tok.Name.Local == "key" || tok.Name.Local == "string"
			array = array || tok.Name.Local == "array"
			on := tok.Name.Local == "true"
			if on || tok.Name.Local == "false" {
				switch key {
				case "RunAtLoad":
					load = on
				case "Disabled":
					disabled = on
				}
			}
		case xml.CharData:
			if inText {
				text += string(tok)
			}
		case xml.EndElement:
			switch {
			case tok.Name.Local == "key":
				key = strings.TrimSpace(text)
			case tok.Name.Local == "string" && array && key == "ProgramArguments":
				cmd = append(cmd, text)
			case tok.Name.Local == "array":
				array = false
			}
			inText = false
		}
	}
}
