package suite

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// results are the outcomes of this and of earlier runs, one JSON line each in a file
// that only grows; the last line of a model, type and device counts.
type results struct {
	path string
	by   map[resultKey]*Outcome
}

type resultKey struct{ model, typ, device string }

func openResults(path string) (*results, error) {
	r := &results{path: path, by: map[resultKey]*Outcome{}}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, os.MkdirAll(filepath.Dir(path), 0o755)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		o := &Outcome{}
		if json.Unmarshal(lines.Bytes(), o) != nil {
			continue // cut off when an earlier run was stopped
		}
		r.put(o)
	}
	return r, lines.Err()
}

func (r *results) put(o *Outcome) { r.by[resultKey{o.Model, o.Type, o.Device}] = o }

func (r *results) get(model, typ, device string) (*Outcome, bool) {
	o, ok := r.by[resultKey{model, typ, device}]
	return o, ok
}

func (r *results) add(o *Outcome) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(append(b, '\n')); err != nil {
		return errors.Join(err, f.Close())
	}
	r.put(o)
	return f.Close()
}

// stampOf tells one build of the program from another.
func stampOf(program string) (string, error) {
	f, err := os.Open(program)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("stamp: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
