package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"neuron/app/chat/store"
	"neuron/app/chat/thread"
)

// saidChat is what the window has saved of its newest chat.
type saidChat struct {
	draft    string
	question *thread.Message // the last one, nil for none
	answer   *thread.Message // the last one, nil for none
}

// said reads a copy of the window's chats, since the window goes on to write
// them. An answer that is being written is thread.StateLost in the copy. ok is
// false for a copy that was taken in the middle of a write.
func (d *desk) said() (s saidChat, ok bool) {
	d.t.Helper()
	dir, err := os.MkdirTemp(d.t.TempDir(), "chats")
	if err != nil {
		d.t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const name = "chats.db"
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(filepath.Join(d.data, "window", name+suffix))
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing is written yet, or all of it is in the file itself
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name+suffix), raw, 0o600)
		}
		if err != nil {
			d.t.Fatal(err)
		}
	}
	db, opened, err := store.Open(d.ctx, filepath.Join(dir, name), time.Now())
	if err != nil {
		return s, false
	}
	defer db.Close()
	chats, err := db.Chats(d.ctx)
	if err != nil || opened.SetAside != "" {
		return s, false
	}
	if len(chats) == 0 {
		return s, true
	}
	messages, err := db.Messages(d.ctx, chats[0].ID)
	if err != nil {
		return s, false
	}
	s.draft = chats[0].Draft
	for i := range messages {
		switch m := &messages[i]; m.Role {
		case thread.RoleUser:
			s.question = m
		case thread.RoleAssistant:
			s.answer = m
		}
	}
	return s, true
}
