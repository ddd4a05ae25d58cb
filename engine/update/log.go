package update

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// The installer writes a few lines; mostLog is what is kept of one that does not
// stop, and lastLine how much of it an error may quote.
const (
	mostLog  = 1 << 20
	lastLine = 300
)

// installLog is what Neuron's own installer writes, the newest time alone.
type installLog struct {
	file  *os.File // nil: there is none
	begin int64    // of what the installer writes
}

// beginLog begins the log anew. An update is worth more than its log: one that
// cannot be written is a line in the engine's.
func (k *Keeper) beginLog(version string, argv []string) *installLog {
	if k.o.Log == "" {
		return &installLog{}
	}
	l, err := newLog(k.o.Log, fmt.Sprintf("%s Neuron %s: %s\n", time.Now().Format(time.RFC3339), version, strings.Join(argv, " ")))
	if err != nil {
		k.o.Logger.Warn("The installer's output cannot be kept", "error", err)
		return &installLog{}
	}
	return l
}

// newLog writes to a new file: an installer that still runs keeps its own.
func newLog(path, head string) (*installLog, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := f.WriteString(head); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &installLog{file: f, begin: int64(len(head))}, nil
}

// close ends this process's part; the installer goes on writing.
func (l *installLog) close() {
	if l.file != nil {
		_ = l.file.Close() // nothing of ours is waiting to be written
	}
}

// failed says what an installer has ended with, and where its words are.
func (l *installLog) failed(command string, err error) *protocol.Error {
	text := "the installer has ended without installing"
	var detail map[string]string
	if l.file != nil {
		path := l.file.Name()
		detail = map[string]string{"log": path}
		if last := l.last(path); last != "" {
			text += ": " + last
			detail["said"] = last
		}
		text += "; what it wrote is in " + path
	}
	e := protocol.Errorf(protocol.CodeUnsupported, "%s%s (%w)", text, inTerminal(command), err)
	e.Detail = detail
	return e
}

// last is the last line that the installer wrote, "" for none. It is asked for
// after close, too.
func (l *installLog) last(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "" // the error names the file all the same
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return ""
	}
	raw, err := io.ReadAll(io.NewSectionReader(f, max(l.begin, st.Size()-4*lastLine), 4*lastLine))
	if err != nil {
		return ""
	}
	raw = bytes.TrimSpace(raw)
	line := strings.ToValidUTF8(string(raw[bytes.LastIndexByte(raw, '\n')+1:]), "")
	return strings.TrimSpace(line[:min(len(line), lastLine)])
}

// boundLog cuts what an installer has written without end. One that still runs
// adds behind the cut.
func boundLog(path string, logger *slog.Logger) {
	if path == "" {
		return
	}
	st, err := os.Stat(path)
	if err == nil && st.Size() > mostLog {
		err = os.Truncate(path, mostLog)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		logger.Warn("The installer's log cannot be kept small", "error", err)
	}
}
