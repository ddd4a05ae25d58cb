package autostart

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"neuron/internal/atomicfile"
)

// desktopFile is an entry as the XDG autostart specification has it.
type desktopFile struct{ path string }

func (d desktopFile) read() (cmd []string, enabled, found bool, err error) {
	b, found, err := readFile(d.path)
	if err != nil || !found {
		return nil, false, false, err
	}
	cmd, enabled = parseDesktop(string(b))
	return cmd, enabled, true, nil
}

func (d desktopFile) write(cmd []string) error {
	if err := os.MkdirAll(filepath.Dir(d.path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(d.path, []byte("[Desktop Entry]\nType=Application\nName=Neuron\nComment=Share this computer\nIcon=neuron\nTerminal=false\nX-GNOME-Autostart-enabled=true\nExec="+quoteExec(cmd)+"\n"))
}

func (d desktopFile) remove() error { return removeFile(d.path) }

// parseDesktop reads what matters of the file: the user's tools set Hidden, or
// GNOME's own key, to switch an entry off.
func parseDesktop(text string) (cmd []string, enabled bool) {
	enabled = true
	ours := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			ours = line == "[Desktop Entry]"
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ours || !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "Exec":
			cmd = splitExec(value)
		case "Hidden":
			enabled = enabled && value != "true"
		case "X-GNOME-Autostart-enabled":
			enabled = enabled && value != "false"
		}
	}
	return cmd, enabled && len(cmd) > 0
}

// quoteExec writes a command line for Exec: every argument in double quotes,
// then the file's own escapes for the backslashes.
func quoteExec(cmd []string) string {
	out := make([]string, len(cmd))
	for i, s := range cmd {
		s = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", `$`, `\$`).Replace(s)
		out[i] = `"` + strings.ReplaceAll(s, `%`, `%%`) + `"`
	}
	return strings.ReplaceAll(strings.Join(out, " "), `\`, `\\`)
}

// splitExec is the opposite; what has no quotes ends at a blank.
func splitExec(line string) []string {
	line = strings.ReplaceAll(line, `\\`, `\`)
	var out []string
	var b strings.Builder
	quoted, any := false, false
	flush := func() {
		if any {
			out = append(out, strings.ReplaceAll(b.String(), "%%", "%"))
		}
		b.Reset()
		any = false
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"':
			quoted, any = !quoted, true
		case c == '\\' && quoted && i+1 < len(line):
			i++
			b.WriteByte(line[i])
		case c == ' ' && !quoted:
			flush()
		default:
			b.WriteByte(c)
			any = true
		}
	}
	flush()
	return out
}

// readFile reads a small file; one that is not there is none.
func readFile(path string) (b []byte, found bool, err error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	b, err = io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(b) > maxFile {
		err = errors.New("the file is too large")
	}
	return b, true, err
}

func removeFile(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
