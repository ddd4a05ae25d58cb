package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"neuron/app/chat/thread"
	"neuron/engine/protocol"
)

var now = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func openAt(t *testing.T, path string) *Store {
	t.Helper()
	s, o, err := Open(t.Context(), path, now)
	if err != nil || o.SetAside != "" {
		t.Fatalf("open: %+v, %v", o, err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// stores runs f with a file and in memory.
func stores(t *testing.T, f func(t *testing.T, s *Store)) {
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		f(t, openAt(t, filepath.Join(t.TempDir(), "window", "chats.db")))
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		s, err := Memory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		f(t, s)
	})
}

func chat(id thread.ID, title string) *thread.Chat {
	at := now.Add(time.Duration(id) * time.Minute)
	return &thread.Chat{ID: id, Title: title, Created: at, Updated: at, Head: id*100 + 1}
}

func says(c *thread.Chat, n thread.ID, text string) thread.Message {
	return thread.Message{ID: c.ID*100 + n, Chat: c.ID, Role: thread.RoleUser, Text: text, State: thread.StateComplete, Created: c.Created.Add(time.Duration(n) * time.Second)}
}

func put(t *testing.T, s *Store, c *thread.Chat, m ...thread.Message) {
	t.Helper()
	if err := s.Put(t.Context(), c, m...); err != nil {
		t.Fatal(err)
	}
}

func ids(chats []thread.Chat) string {
	var out []string
	for _, c := range chats {
		out = append(out, fmt.Sprint(int64(c.ID)))
	}
	return strings.Join(out, " ")
}

func list(t *testing.T, s *Store) string {
	t.Helper()
	chats, err := s.Chats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return ids(chats)
}

var sameTime = cmpopts.EquateApproxTime(0)

func TestPut(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s *Store) {
		temperature, seed, hop := 0.5, uint32(3), 1
		c := chat(1, "Title")
		c.Named, c.Model, c.Private, c.System, c.Draft = true, "guide", true, "Be brief.", "half a thou"
		c.Params = thread.Params{Temperature: &temperature, Seed: &seed, MaxTokens: 9}
		question := says(c, 1, "Wie heißt das?")
		answer := thread.Message{
			ID: 102, Chat: 1, Parent: 101, Role: thread.RoleAssistant, Text: "Das heißt", State: thread.StateFailed, Finish: protocol.FinishError,
			Error: &protocol.Error{Code: protocol.CodeHopLost, Message: "lost", Hop: &hop, Phase: protocol.PhaseDecode}, Model: "guide", Private: true,
			Stats:   &thread.Stats{Tokens: 2, Hops: []thread.Hop{{Node: "n", Use: protocol.Range{First: 0, Last: 3}, Health: "lost"}}},
			Created: now.Add(time.Hour),
		}
		put(t, s, c, question, answer)
		chats, err := s.Chats(t.Context())
		if d := cmp.Diff([]thread.Chat{*c}, chats, sameTime); d != "" || err != nil {
			t.Errorf("chats (-want +got):\n%s\n%v", d, err)
		}
		got, err := s.Messages(t.Context(), 1)
		if d := cmp.Diff([]thread.Message{question, answer}, got, sameTime, cmpopts.IgnoreUnexported(protocol.Error{})); d != "" || err != nil {
			t.Errorf("messages (-want +got):\n%s\n%v", d, err)
		}

		// The same again, with another text.
		answer.Text, answer.State, answer.Error, answer.Stats = "Das heißt so.", thread.StateComplete, nil, nil
		c.Title, c.Head = "Another", 102
		put(t, s, c, answer)
		got, err = s.Messages(t.Context(), 1)
		if d := cmp.Diff([]thread.Message{question, answer}, got, sameTime); d != "" || err != nil {
			t.Errorf("messages (-want +got):\n%s\n%v", d, err)
		}
		if hits, err := s.Search(t.Context(), "heißt so", 9); err != nil || len(hits) != 1 || hits[0].Message != 102 {
			t.Errorf("the new text is not found: %+v, %v", hits, err)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s *Store) {
		for id := range thread.ID(3) {
			c := chat(id+1, "")
			put(t, s, c, says(c, 1, "secret question"))
		}
		if err := errors.Join(s.Delete(t.Context(), 2, now), s.Delete(t.Context(), 3, now), s.Restore(t.Context(), 3)); err != nil {
			t.Fatal(err)
		}
		if got := list(t, s); got != "3 1" {
			t.Errorf("chats %s, want 3 1", got)
		}
		if hits, err := s.Search(t.Context(), "secret", 9); err != nil || len(hits) != 2 {
			t.Errorf("found %+v, %v", hits, err)
		}
		// An answer that is still written does not bring the chat back.
		put(t, s, chat(2, ""), says(chat(2, ""), 2, "late"))
		if err := s.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		if m, err := s.Messages(t.Context(), 2); err != nil || len(m) != 0 || list(t, s) != "3 1" {
			t.Errorf("%d messages remain, %v", len(m), err)
		}
		if hits, err := s.Search(t.Context(), "secret", 9); err != nil || len(hits) != 2 {
			t.Errorf("found %+v, %v", hits, err)
		}
	})
}

// What was deleted must not stand in the files any more.
func TestPurgeOverwrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chats.db")
	s := openAt(t, path)
	c := chat(1, "")
	put(t, s, c, says(c, 1, "the swordfish word"))
	if err := errors.Join(s.Delete(t.Context(), 1, now), s.Purge(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, path + "-wal"} {
		raw, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "swordfish") {
			t.Errorf("%s still holds the text", filepath.Base(name))
		}
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	stores(t, func(t *testing.T, s *Store) {
		texts := map[thread.ID]string{
			1: "Die Donaudampfschifffahrtsgesellschaft fährt.\n\nSehr oft.",
			2: "Un café crème, s'il vous plaît. " + strings.Repeat("x ", 200) + "needle " + strings.Repeat("y ", 200),
			3: "日本語のテキストです",
			4: `100% "quoted" under_score AND OR NEAR(`,
			5: "nothing of interest",
		}
		for id, text := range texts {
			c := chat(id, "")
			if id == 5 {
				c.Title = "Rezepte für Äpfel"
			}
			put(t, s, c, says(c, 1, text))
		}
		for query, want := range map[string]string{
			"dampfschiff": "1", "DAMPF": "1", "dampf oft": "1", "dampf café": "", "fahrt": "1", "cafe": "2", "creme plait": "2",
			"日本語": "3", "語": "3", "%": "4", "_": "4", `"`: "4", `"quoted"`: "4", "AND": "4", "NEAR(": "4", "un": "4 2", "*": "", "'": "2",
			"äpfel": "5", "apfel": "", "REZEPTE": "5", "": "", "  ": "", "\x00": "", "needle": "2", "zz": "",
		} {
			hits, err := s.Search(t.Context(), query, 10)
			var got []string
			for _, h := range hits {
				got = append(got, fmt.Sprint(int64(h.Chat)))
			}
			if err != nil || strings.Join(got, " ") != want {
				t.Errorf("%q finds %v, want %q; %v", query, got, want, err)
			}
		}
		hits, err := s.Search(t.Context(), "needle", 10)
		if err != nil || !strings.HasPrefix(hits[0].Snippet, "…x x") || !strings.Contains(hits[0].Snippet, "x needle y") || !strings.HasSuffix(hits[0].Snippet, "…") {
			t.Errorf("%+v, %v", hits, err)
		}
		if hits, err := s.Search(t.Context(), "fährt", 10); err != nil || hits[0].Snippet != "…dampfschifffahrtsgesellschaft fährt. Sehr oft." {
			t.Errorf("%+v, %v", hits, err)
		}
		if hits, err := s.Search(t.Context(), "e", 2); err != nil || len(hits) != 2 {
			t.Errorf("the limit is not kept: %+v, %v", hits, err)
		}
	})
}

func FuzzSearch(f *testing.F) {
	for _, q := range []string{"plain", `"`, `a" OR "b`, "%_\\", "NEAR(a b)", "é", "\xff\x00", "* -^:{}"} {
		f.Add(q)
	}
	s, err := Memory(context.Background())
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { s.Close() })
	c := chat(1, "title")
	if err := s.Put(context.Background(), c, says(c, 1, "some text that is searched")); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, query string) {
		if _, err := s.Search(t.Context(), query, 10); err != nil {
			t.Errorf("%q: %v", query, err)
		}
	})
}

// A chat without messages and draft is not kept, and what was being written is
// marked.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chats.db")
	s := openAt(t, path)
	empty, draft, talk, gone := chat(1, ""), chat(2, ""), chat(3, ""), chat(4, "")
	empty.Head, draft.Head, draft.Draft = 0, 0, "unsent"
	empty.Draft = " \n\t"
	half := says(talk, 1, "half an ans")
	half.Role, half.State = thread.RoleAssistant, thread.StateWriting
	put(t, s, empty)
	put(t, s, draft)
	put(t, s, talk, half)
	put(t, s, gone, says(gone, 1, "x"))
	if err := errors.Join(s.Delete(t.Context(), 4, now), s.Close()); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	if got := list(t, s); got != "3 2" {
		t.Errorf("chats %s, want 3 2", got)
	}
	m, err := s.Messages(t.Context(), 3)
	if err != nil || len(m) != 1 || m[0].State != thread.StateLost || m[0].Text != "half an ans" {
		t.Errorf("%+v, %v", m, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// A damaged file must not end in an empty window or be lost.
func TestDamagedFileIsSetAside(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(t *testing.T, path string){
		"no database": func(t *testing.T, path string) { write(t, path, []byte(strings.Repeat("no database", 1000))) },
		"pages gone": func(t *testing.T, path string) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i := 4096; i < len(raw); i++ {
				raw[i] = 0xAA
			}
			write(t, path, raw)
		},
		"cut short": func(t *testing.T, path string) {
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "chats.db")
			for n := 1; n <= 2; n++ { // the second time it must not overwrite the first
				s := openAt(t, path)
				c := chat(1, "")
				put(t, s, c, says(c, 1, strings.Repeat("text ", 5000)))
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				damage(t, path)
				s, opened, err := Open(t.Context(), path, now)
				if err != nil || opened.SetAside == "" {
					t.Fatalf("%+v, %v", opened, err)
				}
				if got := list(t, s); got != "" {
					t.Errorf("chats %s", got)
				}
				s.Close()
				kept, err := filepath.Glob(path + ".damaged-*[0-9]")
				if err != nil || len(kept) != n {
					t.Errorf("after %d damages there are %v", n, kept)
				}
			}
		})
	}
}

func write(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The index is made of the messages; a broken one is made again.
func TestBrokenIndexIsMadeAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chats.db")
	s := openAt(t, path)
	c := chat(1, "")
	put(t, s, c, says(c, 1, "findable"))
	if _, err := s.db.ExecContext(t.Context(), "DELETE FROM found_data WHERE id > 10"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Search(t.Context(), "findable", 9); !Damaged(err) {
		t.Fatalf("the test breaks nothing: %v", err)
	}
	s.Close()
	s = openAt(t, path)
	if hits, err := s.Search(t.Context(), "findable", 9); err != nil || len(hits) != 1 {
		t.Errorf("%+v, %v", hits, err)
	}
}

func TestMigrations(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chats.db")
	s := openAt(t, path)
	put(t, s, chat(1, "kept"))
	s.Close()
	more := append(append([]string{}, migrations...), "ALTER TABLE chat ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0")

	// A step that fails leaves the file as it was.
	if _, err := open(t.Context(), path, append(append([]string{}, more...), "ALTER TABLE nowhere ADD COLUMN x")); err == nil {
		t.Fatal("a wrong step is accepted")
	}
	s, err := open(t.Context(), path, more)
	if err != nil {
		t.Fatal(err)
	}
	var pinned int
	if err := s.db.QueryRowContext(t.Context(), "SELECT pinned FROM chat WHERE title = 'kept'").Scan(&pinned); err != nil {
		t.Error(err)
	}
	s.Close()

	// An older window leaves a newer file alone.
	var e *protocol.Error
	if _, o, err := Open(t.Context(), path, now); !errors.As(err, &e) || e.Code != protocol.CodeDataFolder || o.SetAside != "" {
		t.Errorf("a newer file: %+v, %v", o, err)
	}
	if s, err = open(t.Context(), path, more); err != nil || list(t, s) != "1" {
		t.Errorf("the newer file was changed: %v", err)
	}
	s.Close()
}

func TestUnusableFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), nil)
	var e *protocol.Error
	if _, _, err := Open(t.Context(), filepath.Join(dir, "file", "chats.db"), now); !errors.As(err, &e) || e.Code != protocol.CodeDataFolder {
		t.Errorf("%v", err)
	}
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "chats.db"))
	c := chat(1, "")
	put(t, s, c, says(c, 1, "first"))
	var pages int
	if err := s.db.QueryRowContext(t.Context(), "PRAGMA max_page_count = 1").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	var e *protocol.Error
	if err := s.Put(t.Context(), c, says(c, 2, strings.Repeat("more ", 1e5))); !errors.As(err, &e) || e.Code != protocol.CodeDiskFull {
		t.Errorf("%v", err)
	}
	if m, err := s.Messages(t.Context(), 1); err != nil || len(m) != 1 {
		t.Errorf("%d messages, %v", len(m), err)
	}
}
