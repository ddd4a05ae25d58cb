package update

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"neuron/engine/update/feed"
	"neuron/internal/atomicfile"
)

// Files in the folder.
const (
	stateFile = "state.json"
	feedFile  = "feed.json"
)

// maxState bounds the state's file, in bytes.
const maxState = 64 << 10

// maxChannels bounds what is remembered of channels.
const maxChannels = 16

// memory is what is remembered over restarts.
type memory struct {
	// Seen is by channel: what must not go back.
	Seen map[string]feed.Seen `json:"seen"`
	// Feed and Channel are what the rest is about.
	Feed    string    `json:"feed"`
	Channel string    `json:"channel"`
	Checked time.Time `json:"checked,omitzero"`
	Next    time.Time `json:"next,omitzero"`
	// Dismissed is a version of which the user does not want to hear.
	Dismissed string `json:"dismissed"`
}

func sumOf(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// recall reads the files. What cannot be read is as if it had never been: the
// list is read again, and an old one is still refused by its own expiry.
func (k *Keeper) recall() {
	raw, err := small(filepath.Join(k.o.Dir, stateFile), maxState)
	if err == nil {
		var m memory
		if err = json.Unmarshal(raw, &m); err == nil {
			if m.Seen == nil || len(m.Seen) > maxChannels {
				m.Seen = map[string]feed.Seen{}
			}
			k.memory = m
		}
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			k.o.Logger.Warn("What was known of releases cannot be read and begins anew", "error", err)
		}
		return
	}
	s, _ := k.settings()
	if k.memory.Feed != s.Feed || k.memory.Channel != s.Channel || k.missing(s) != nil {
		return
	}
	if raw, err = small(filepath.Join(k.o.Dir, feedFile), feed.MaxBytes); err != nil {
		return // it is read again in time
	}
	if err := k.take(s, raw, time.Now()); err != nil {
		k.o.Logger.Info("The list of releases on disk is not used any more", "error", err)
		k.memory.Checked = time.Time{}
	}
}

// remember writes the state, and a list that was believed.
func (k *Keeper) remember(raw []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	b, err := json.MarshalIndent(k.memory, "", "  ")
	if err == nil {
		err = os.MkdirAll(k.o.Dir, 0o700)
	}
	if err == nil && raw != nil {
		err = atomicfile.Write(filepath.Join(k.o.Dir, feedFile), raw)
	}
	// The state last: it must not say more than the list that is there.
	if err == nil {
		err = atomicfile.Write(filepath.Join(k.o.Dir, stateFile), append(b, '\n'))
	}
	if err != nil {
		k.o.Logger.Warn("What is known of releases could not be saved", "error", err)
	}
}

// small reads a file of at most most bytes.
func small(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = errors.New("the file is too large")
	}
	return b, err
}
