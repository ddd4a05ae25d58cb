// Package settings keeps the user's settings of a data folder: one JSON file,
// replaced in one step, with a count of its changes.
//
// engine/desktop owns the one Store of a running engine. The package knows what
// settings look like (engine/policy) and nothing of what they are for.
package settings

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
	"neuron/internal/syserr"
)

// File is the name of the file in the data folder.
const File = "settings.json"

// Store is safe for concurrent use and has no goroutine.
type Store struct {
	path string

	mu sync.Mutex
	// Protected by mu.
	now     policy.Settings
	changed chan struct{}   // closed and replaced by each change
	read    *protocol.Error // what was wrong with the file at the start
	saved   *protocol.Error // why what is in force is not in the file
}

// Open reads the settings. A file that cannot be read is set aside with the day
// and time in its name, and the defaults are in force; Trouble tells it. Error:
// data_folder when a file is there that can neither be read nor set aside.
func Open(dir string, now time.Time) (*Store, error) {
	s := &Store{path: filepath.Join(dir, File), now: policy.Defaults(), changed: make(chan struct{})}
	raw, err := read(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	var mended []string
	if err == nil {
		var got policy.Settings
		if got, mended, err = policy.Parse(raw); err == nil {
			s.now = got
		}
	}
	switch {
	case err != nil:
		aside := s.path + ".broken-" + now.Format("20060102-150405")
		if merr := os.Rename(s.path, aside); merr != nil {
			return nil, protocol.Errorf(protocol.CodeDataFolder, "the settings can neither be read nor set aside: %w", errors.Join(err, merr))
		}
		s.read = protocol.Errorf(protocol.CodeSettingsBroken,
			"the settings could not be read (%s); the file is kept as %s, and the settings of a first start are in force", protocol.AsError(err).Message, filepath.Base(aside))
	case len(mended) > 0:
		s.read = protocol.Errorf(protocol.CodeSettingsBroken, "some settings could not be used and have safe values now: %s", strings.Join(mended, ", "))
	}
	return s, nil
}

// read reads a file of at most policy.MaxSize bytes; one more tells a larger one.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, policy.MaxSize+1))
}

// Get is what is in force; the caller may change it.
func (s *Store) Get() policy.Settings {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.Clone()
}

// Watch is Get, with a channel that is closed by the next change.
func (s *Store) Watch() (policy.Settings, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.Clone(), s.changed
}

// Set puts x in force and saves it. x has the revision that its author saw; what
// is in force has the next one. What cannot be saved is in force all the same,
// since the user has asked for it: Trouble tells it, and Save tries again.
// Errors: conflict when the settings have changed meanwhile; those of
// policy.Settings.Check. Both change nothing and come with what is in force.
func (s *Store) Set(x policy.Settings) (policy.Settings, error) {
	if err := x.Check(); err != nil {
		return s.Get(), err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.Revision != s.now.Revision {
		return s.now.Clone(), protocol.Errorf(protocol.CodeConflict, "the settings have changed meanwhile; look at them again")
	}
	s.putLocked(x.Clone())
	return s.now.Clone(), nil
}

// Update changes what is in force whatever its revision; errors as of Set.
func (s *Store) Update(change func(*policy.Settings)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.now.Clone()
	change(&x)
	if err := x.Check(); err != nil {
		return err
	}
	s.putLocked(x)
	return nil
}

func (s *Store) putLocked(x policy.Settings) {
	x.Revision = s.now.Revision + 1
	s.now = x
	s.read = nil // the user has seen the settings, or the file would be of no use
	s.saveLocked()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Store) saveLocked() {
	raw, err := json.MarshalIndent(s.now, "", "  ")
	if err == nil {
		err = atomicfile.Write(s.path, append(raw, '\n'))
	}
	s.saved = nil
	if err != nil {
		code := protocol.CodeDataFolder
		if syserr.DiskFull(err) {
			code = protocol.CodeDiskFull
		}
		s.saved = protocol.Errorf(code, "the settings are in force, but could not be saved: %w", err)
	}
}

// Save tries again to save what could not be saved.
func (s *Store) Save() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved != nil {
		s.saveLocked()
	}
}

// Trouble is what is wrong with the file, for people.
func (s *Store) Trouble() []*protocol.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*protocol.Error
	for _, e := range []*protocol.Error{s.read, s.saved} {
		if e != nil {
			out = append(out, e)
		}
	}
	return out
}
