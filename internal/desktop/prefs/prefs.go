// Package prefs is what the desktop itself remembers: language, look, size, and
// which questions were asked. What the engine decides by lies in engine/policy.
//
// Window and tray import it; each has a Store of its own on the same file, and
// reads what the other has written before it changes anything. It knows no
// toolkit and no engine.
package prefs

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"sync"

	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
	"neuron/internal/desktop/folders"
	"neuron/internal/filelock"
)

// Prefs are the preferences. Their zero value is not of use: see Defaults.
type Prefs struct {
	Language string  `json:"language"` // a tag of words.Languages, or "system"
	Theme    string  `json:"theme"`    // "dark", "light" or "system"
	Scale    float64 `json:"scale"`    // of everything in the window, 0.5 to 3
	Notify   bool    `json:"notify"`   // notifications may be shown
	// HideOnClose leaves engine and tray running when the window is closed, whose
	// own process ends; without it, closing quits all. StartHidden starts without
	// the window.
	HideOnClose bool `json:"hide_on_close"`
	StartHidden bool `json:"start_hidden"`
	// Asked has the names of questions that the user has answered once.
	Asked    map[string]bool `json:"asked"`
	LastPage string          `json:"last_page"`
	// Width and Height of the window, 0: the usual ones.
	Width  float32 `json:"width"`
	Height float32 `json:"height"`
}

// Defaults are what a new user gets.
func Defaults() Prefs {
	return Prefs{Language: "system", Theme: "system", Scale: 1, Notify: true, HideOnClose: true, Asked: map[string]bool{}}
}

// sane puts what is out of range back to the default: the file may be of
// another version, or edited by hand.
func (p Prefs) sane() Prefs {
	d := Defaults()
	if p.Language == "" || len(p.Language) > 40 {
		p.Language = d.Language
	}
	if p.Theme != "dark" && p.Theme != "light" {
		p.Theme = d.Theme
	}
	if !(p.Scale >= 0.5 && p.Scale <= 3) { // NaN too
		p.Scale = d.Scale
	}
	if p.Asked == nil || len(p.Asked) > 1000 {
		p.Asked = map[string]bool{}
	}
	if len(p.LastPage) > 40 {
		p.LastPage = ""
	}
	p.Width, p.Height = side(p.Width), side(p.Height)
	return p
}

func side(f float32) float32 {
	if math.IsNaN(float64(f)) || f < 200 || f > 20000 {
		return 0
	}
	return f
}

func (p Prefs) clone() Prefs {
	p.Asked = maps.Clone(p.Asked)
	return p
}

// Store keeps the preferences of a data folder. It is safe for concurrent use
// and has no goroutine.
type Store struct {
	dir string

	mu       sync.Mutex
	now      Prefs                      // guarded by mu
	problem  *protocol.Error            // guarded by mu
	watchers map[chan struct{}]struct{} // guarded by mu
}

// names in the window's folder.
const (
	fileName  = "prefs.json"
	asideName = "prefs.broken.json"
	lockName  = "prefs.lock"
)

// maxFile bounds the file, in bytes.
const maxFile = 256 << 10

// Open reads the preferences of a data folder, or begins with the defaults. A
// broken file is set aside, and Problem tells it. Error: data_folder; the Store
// works all the same then, and remembers nothing.
func Open(data string) (*Store, error) {
	s := &Store{dir: folders.Window(data), now: Defaults(), watchers: map[chan struct{}]struct{}{}}
	if err := folders.Make(s.dir); err != nil {
		return s, err
	}
	lock, err := filelock.Wait(filepath.Join(s.dir, lockName))
	if err != nil {
		return s, protocol.Errorf(protocol.CodeDataFolder, "lock the preferences: %w", err)
	}
	defer lock.Unlock()
	p, problem, err := s.read()
	if p != nil {
		s.now = *p
	}
	s.problem = problem
	return s, err
}

// read gives what the file says, nil without a file that can be used, and sets
// a broken one aside, which it tells; the lock is held. Error: data_folder.
func (s *Store) read() (*Prefs, *protocol.Error, error) {
	path := filepath.Join(s.dir, fileName)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, protocol.Errorf(protocol.CodeDataFolder, "read the preferences: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	f.Close()
	if err != nil {
		return nil, nil, protocol.Errorf(protocol.CodeDataFolder, "read the preferences: %w", err)
	}
	p, err := parse(b)
	if err == nil {
		return &p, nil, nil
	}
	aside := filepath.Join(s.dir, asideName)
	if err := os.Rename(path, aside); err != nil {
		return nil, nil, protocol.Errorf(protocol.CodeDataFolder, "set the broken preferences aside: %w", err)
	}
	return nil, protocol.Errorf(protocol.CodeDataFolder, "the preferences were damaged and are back to their defaults; the old file is %s", aside), nil
}

// parse reads the file's bytes. What is missing has its default.
func parse(b []byte) (Prefs, error) {
	if len(b) > maxFile {
		return Prefs{}, errors.New("too large")
	}
	p := Defaults()
	if err := json.Unmarshal(b, &p); err != nil {
		return Prefs{}, err
	}
	return p.sane(), nil
}

// Get is a copy of the preferences.
func (s *Store) Get() Prefs {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now.clone()
}

// Problem is what was wrong with the file when it was read, nil for nothing.
func (s *Store) Problem() *protocol.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.problem
}

// Update changes the preferences and writes them. f gets what the file says
// now, which another program may have changed, and must not call the Store.
// Error: data_folder; what f did is in force all the same, until the file is
// read again.
func (s *Store) Update(f func(*Prefs)) error {
	return s.change(f, true)
}

// Reload reads what another program has written.
func (s *Store) Reload() error { return s.change(func(*Prefs) {}, false) }

func (s *Store) change(f func(*Prefs), write bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.underLock(f, write)
	for c := range s.watchers {
		select {
		case c <- struct{}{}:
		default: // it has not seen the last change yet
		}
	}
	return err
}

func (s *Store) underLock(f func(*Prefs), write bool) error {
	next := s.now.clone()
	lock, err := filelock.Wait(filepath.Join(s.dir, lockName))
	if err != nil {
		err = protocol.Errorf(protocol.CodeDataFolder, "lock the preferences: %w", err)
	} else {
		defer lock.Unlock()
		var read *Prefs
		var problem *protocol.Error
		if read, problem, err = s.read(); read != nil {
			next = *read
		}
		if problem != nil {
			s.problem = problem
		}
	}
	f(&next)
	s.now = next.sane()
	if err != nil || !write {
		return err
	}
	b, err := json.MarshalIndent(s.now, "", "  ")
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "encode the preferences: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(s.dir, fileName), append(b, '\n')); err != nil {
		return protocol.Errorf(protocol.CodeDataFolder, "write the preferences: %w", err)
	}
	return nil
}

// Watch gives a channel of capacity 1 that gets a value after each change by
// this Store, and what ends it.
func (s *Store) Watch() (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	s.mu.Lock()
	s.watchers[c] = struct{}{}
	s.mu.Unlock()
	return c, func() {
		s.mu.Lock()
		delete(s.watchers, c)
		s.mu.Unlock()
	}
}
