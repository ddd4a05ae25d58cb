package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"neuron/engine/protocol"
	"neuron/engine/wallet"
)

// passphrases says where a passphrase comes from.
type passphrases struct {
	file string // "-" is the standard input, "" asks on the terminal
	in   io.Reader
	ask  io.Writer
}

const passphraseHelp = `file whose first line is the passphrase ("-": standard input; "": ask on the terminal)`

// read gets a passphrase; twice asks again on a terminal, where it is not seen.
func (p passphrases) read(prompt string, twice bool) ([]byte, error) {
	switch p.file {
	case "":
	case "-":
		return firstLine(p.in)
	default:
		f, err := os.Open(p.file)
		if err != nil {
			return nil, protocol.Errorf(protocol.CodeInvalidRequest, "read the passphrase: %w", err)
		}
		defer f.Close()
		return firstLine(f)
	}
	f, ok := p.in.(*os.File)
	if !ok || !isTerminal(f) {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "there is no terminal to ask for the passphrase: give --passphrase-file")
	}
	first, err := p.hidden(f, prompt)
	if err != nil || !twice {
		return first, err
	}
	if len(first) < wallet.MinPassphrase {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the passphrase has less than %d characters", wallet.MinPassphrase)
	}
	second, err := p.hidden(f, "The same again: ")
	if err == nil && !bytes.Equal(first, second) {
		err = protocol.Errorf(protocol.CodeInvalidRequest, "the two passphrases differ")
	}
	return first, err
}

// hidden asks on a terminal without echo, and leaves the terminal as it was.
func (p passphrases) hidden(f *os.File, prompt string) ([]byte, error) {
	restore, err := rawTerminal(f)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the terminal cannot hide what is typed: %w; give --passphrase-file", err)
	}
	fmt.Fprint(p.ask, prompt) // not before: what is typed at once would show
	line, err := editLine(f)
	restore()
	fmt.Fprintln(p.ask)
	return line, err
}

// maxPassphraseLine bounds a line, in bytes; the wallet has its own limit.
const maxPassphraseLine = 4096

func firstLine(r io.Reader) ([]byte, error) {
	line, err := bufio.NewReader(io.LimitReader(r, maxPassphraseLine)).ReadBytes('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "read the passphrase: %w", err)
	}
	return bytes.TrimRight(line, "\r\n"), nil
}

// editLine reads keys of a raw terminal to the end of a line: the terminal
// itself neither edits nor turns Ctrl-C into a signal then.
func editLine(r io.Reader) ([]byte, error) {
	const ctrlC, ctrlD, backspace, ctrlU, del = 3, 4, 8, 21, 127
	var line, key []byte
	key = make([]byte, 1)
	for {
		if _, err := io.ReadFull(r, key); err != nil {
			if errors.Is(err, io.EOF) {
				return line, nil
			}
			return nil, protocol.Errorf(protocol.CodeInvalidRequest, "read the passphrase: %w", err)
		}
		switch key[0] {
		case '\r', '\n', ctrlD:
			return line, nil
		case ctrlC:
			return nil, protocol.Errorf(protocol.CodeCancelled, "no passphrase was given")
		case backspace, del:
			_, n := utf8.DecodeLastRune(line)
			line = line[:len(line)-n]
		case ctrlU:
			line = nil
		default:
			if len(line) < maxPassphraseLine {
				line = append(line, key[0])
			}
		}
	}
}
