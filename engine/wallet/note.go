package wallet

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
	"neuron/internal/owner"
)

// NoteFile is the name of the note in a node's data folder.
const NoteFile = "owner.json"

const (
	noteVersion = 1
	maxNote     = 16 << 10
	maxText     = 2048
)

// Note is what this computer must not forget about owners: it is written before
// each step that another computer sees, so that a step can be taken again after
// a kill. It holds pairing codes, which are secrets for some minutes.
type Note struct {
	Version int `json:"version"`
	// Tracker is the address of the newest tracker, for commands that run
	// without an engine.
	Tracker string `json:"tracker,omitempty"`
	// Joined is the owner of another computer that this node belongs to; "":
	// this computer's own.
	Joined owner.ID `json:"joined,omitempty"`
	// Offer is a pairing that this node has asked for.
	Offer *Offer `json:"offer,omitempty"`
	// Pairing is a code that this computer's owner has given out.
	Pairing *Pairing `json:"pairing,omitempty"`
	// Signed is the time of the newest binding or release that this node signed,
	// in seconds since 1970.
	Signed int64 `json:"signed,omitempty"`
}

// Offer is what this node signed for a code of another computer.
type Offer struct {
	Code    string         `json:"code"`
	Binding *owner.Binding `json:"binding"`
	// Until is when the code is over at the latest.
	Until time.Time `json:"until"`
	// Given says that the tracker has it.
	Given bool `json:"given,omitempty"`
}

// Pairing is a code of the owner whose key is here.
type Pairing struct {
	Owner owner.ID  `json:"owner"`
	Code  string    `json:"code"`
	Until time.Time `json:"until"`
}

// Notes reads and changes the note of a data folder. Safe for concurrent use,
// by several processes too.
type Notes struct{ dir string }

// NotesAt are the notes of a folder; nothing is read or made.
func NotesAt(dir string) *Notes { return &Notes{dir: dir} }

func (n *Notes) path() string { return filepath.Join(n.dir, NoteFile) }

// Read is the note; one that was never written is empty. Error: data_folder.
func (n *Notes) Read() (Note, error) {
	f, err := os.Open(n.path())
	if errors.Is(err, fs.ErrNotExist) {
		return Note{Version: noteVersion}, nil
	}
	if err != nil {
		return Note{}, n.failed(err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxNote+1))
	if err != nil {
		return Note{}, n.failed(err)
	}
	note, err := parseNote(raw)
	if err != nil {
		return Note{}, n.failed(err)
	}
	return note, nil
}

// Update changes the note and has it on the disk when it returns. When f fails
// nothing is written, and its error is returned.
func (n *Notes) Update(f func(*Note) error) error {
	if err := os.MkdirAll(n.dir, 0o700); err != nil {
		return n.failed(err)
	}
	return exclusive(n.dir, func() error {
		note, err := n.Read()
		if err != nil {
			return err
		}
		before, err := json.Marshal(note)
		if err != nil {
			return protocol.Errorf(protocol.CodeInternal, "encode the note: %w", err)
		}
		if err := f(&note); err != nil {
			return err
		}
		raw, err := json.Marshal(note)
		if err != nil {
			return protocol.Errorf(protocol.CodeInternal, "encode the note: %w", err)
		}
		if string(raw) == string(before) {
			return nil
		}
		if err := atomicfile.Write(n.path(), raw); err != nil {
			return n.failed(err)
		}
		return nil
	})
}

func (n *Notes) failed(err error) error {
	return protocol.Errorf(protocol.CodeDataFolder, "note about owners %s: %w", n.path(), err)
}

// parseNote checks the bytes of a note; its errors quote nothing of them.
func parseNote(raw []byte) (Note, error) {
	var n Note
	if len(raw) > maxNote || json.Unmarshal(raw, &n) != nil {
		return n, errors.New("it is damaged; remove it to forget pairings that are under way")
	}
	if n.Version != noteVersion {
		return n, errors.New("it is of another version of Neuron")
	}
	if len(n.Tracker) > maxText {
		return n, errors.New("the tracker's address is too long")
	}
	if n.Joined != "" {
		if _, err := owner.ParseID(string(n.Joined)); err != nil {
			return n, errors.New("the owner's id is malformed")
		}
	}
	if o := n.Offer; o != nil && (o.Binding == nil || o.Binding.CheckNode() != nil || o.Code == "" || len(o.Code) > maxText) {
		return n, errors.New("the offer is malformed")
	}
	if p := n.Pairing; p != nil {
		if _, err := owner.ParseID(string(p.Owner)); err != nil || p.Code == "" || len(p.Code) > maxText {
			return n, errors.New("the pairing is malformed")
		}
	}
	return n, nil
}
