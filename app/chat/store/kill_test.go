package store

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/app/chat/thread"
)

// childVar names the file that a child of TestKill writes to.
const childVar = "NEURON_CHATS_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childVar); path != "" {
		writeForEver(path)
	}
	os.Exit(m.Run())
}

// writeForEver does what a streamed answer does, and prints each length that is
// written.
func writeForEver(path string) {
	s, opened, err := Open(context.Background(), path, time.Now())
	if err != nil || opened.SetAside != "" {
		fmt.Println("failed:", opened.SetAside, err)
		os.Exit(1)
	}
	c := &thread.Chat{ID: thread.NewID(), Created: time.Now(), Updated: time.Now()}
	m := thread.Message{ID: thread.NewID(), Role: thread.RoleAssistant, State: thread.StateWriting, Created: time.Now()}
	c.Head = m.ID
	for n := 1; ; n++ {
		m.Text += "word "
		if err := s.Put(context.Background(), c, m); err != nil {
			fmt.Println("failed:", err)
			os.Exit(1)
		}
		fmt.Println(int64(c.ID), len(m.Text))
	}
}

// The window may be killed at any moment: what was written is there, and the
// database is sound.
func TestKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "chats.db")
	for round := range 8 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childVar+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		last := ""
		for n := 0; lines.Scan(); n++ {
			last = lines.Text()
			if n == 5+7*round || strings.HasPrefix(last, "failed") {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		var id int64
		var length int
		if _, err := fmt.Sscan(last, &id, &length); err != nil {
			t.Fatalf("round %d: the child says %q", round, last)
		}
		s := openAt(t, path)
		m, err := s.Messages(t.Context(), thread.ID(id))
		if err != nil || len(m) != 1 || len(m[0].Text) < length || m[0].State != thread.StateLost {
			t.Errorf("round %d: %d were written, %d messages are there, %v", round, length, len(m), err)
		}
		if hits, err := s.Search(t.Context(), "word", 99); err != nil || len(hits) != round+1 {
			t.Errorf("round %d: %d chats found, %v", round, len(hits), err)
		}
		s.Close()
	}
}
