package logging

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
)

// files is how many files hold the log: the one that is written, and older
// ones that are named after it with a number.
const files = 5

// Files is a writer on a log file that never takes more than its share of the
// disk: a full file becomes the newest of the older ones, and the oldest goes.
// A disk that is full loses lines and stops nothing. Safe for concurrent use; it
// has no goroutine.
type Files struct {
	path string
	most int64 // of each file

	mu   sync.Mutex
	f    *os.File // nil until it is needed, and while it cannot be opened; guarded by mu
	size int64    // guarded by mu
	err  error    // why the last line was lost, nil when it was not; guarded by mu
}

// NewFiles writes to path; all files together hold at most total bytes. The
// folder and the file are made by the first line. Only the owner may read them.
func NewFiles(path string, total int64) *Files {
	return &Files{path: path, most: max(1, total/files)}
}

func (w *Files) open() error {
	if err := os.MkdirAll(filepath.Dir(w.path), 0o700); err != nil {
		return fmt.Errorf("log folder: %w", err)
	}
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		return errors.Join(fmt.Errorf("log file: %w", err), f.Close())
	}
	w.f, w.size = f, st.Size()
	return nil
}

func (w *Files) name(n int) string {
	if n == 0 {
		return w.path
	}
	return w.path + "." + strconv.Itoa(n)
}

// rotate makes room. What cannot be renamed is written over: the bound counts
// more than the history.
func (w *Files) rotate() error {
	err := w.f.Close()
	w.f = nil
	if err != nil {
		return fmt.Errorf("log file: %w", err)
	}
	for n := files - 1; n > 0; n-- {
		if err := os.Rename(w.name(n-1), w.name(n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			if n > 1 {
				continue
			}
			if err := os.Truncate(w.path, 0); err != nil {
				return fmt.Errorf("log file: %w", err)
			}
		}
	}
	return w.open()
}

// Write appends one line. A line that is lost is no error to the program that
// logs: Err tells.
func (w *Files) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = nil
	if w.f == nil {
		w.err = w.open()
	}
	if w.err == nil && w.size > 0 && w.size+int64(len(line)) > w.most {
		w.err = w.rotate()
	}
	if w.err != nil {
		return len(line), nil
	}
	n, err := w.f.Write(line[:min(int64(len(line)), w.most)])
	w.size += int64(n)
	w.err = err
	return len(line), nil
}

// Err says why the last line was lost, nil when it was written.
func (w *Files) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close ends the writing; later lines open the file again.
func (w *Files) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.f == nil {
		return nil
	}
	err := w.f.Close()
	w.f = nil
	return err
}
