package store_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"neuron/app/chat/store"
	"neuron/app/chat/thread"
)

// TestRescue: what a window has written comes back, whatever was done to its file.
func TestRescue(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(path string) error{
		"deleted":   os.Remove,
		"moved":     func(path string) error { return os.Rename(path, path+".elsewhere") },
		"folder":    func(path string) error { return os.RemoveAll(filepath.Dir(path)) },
		"exchanged": func(path string) error { return os.WriteFile(path+"2", []byte("another file"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "window", "chats.db")
			s, _, err := store.Open(t.Context(), path, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			c := thread.Chat{ID: thread.NewID(), Created: time.Now(), Updated: time.Now(), Draft: "a draft"}
			if err := s.Put(t.Context(), &c); err != nil {
				t.Fatal(err)
			}
			if s.Gone() {
				t.Fatal("the file is there")
			}
			if err := lose(path); err != nil {
				t.Fatal(err)
			}
			if name == "exchanged" {
				if err := os.Rename(path+"2", path); err != nil {
					t.Fatal(err)
				}
			}
			if !s.Gone() {
				t.Fatal("the file is not missed")
			}
			c.Draft = "a later draft"
			if err := s.Put(t.Context(), &c); err != nil {
				t.Fatal(err)
			}
			again, o, err := s.Rescue(t.Context(), time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if again.Gone() || (o.SetAside != "") != (name == "exchanged") {
				t.Errorf("gone %v, set aside %q", again.Gone(), o.SetAside)
			}
			if err := again.Close(); err != nil {
				t.Fatal(err)
			}
			st, err := os.Stat(path)
			if err != nil || st.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", st, err)
			}
			last, opened, err := store.Open(t.Context(), path, time.Now())
			if err != nil || opened.SetAside != "" {
				t.Fatal(opened, err)
			}
			defer last.Close()
			if list, err := last.Chats(t.Context()); err != nil || len(list) != 1 || list[0].Draft != "a later draft" {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}
