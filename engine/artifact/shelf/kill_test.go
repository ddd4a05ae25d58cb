package shelf_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"neuron/engine/artifact/shelf"
	"neuron/engine/manifest"
	"neuron/engine/protocol"
)

const childEnv = "NEURON_SHELF_TEST_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(childEnv); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// walk is what the child holds, one after the other; each is fetched, and what
// it does not need is dropped.
var walk = []protocol.Range{{First: 3, Last: 8}, {First: 5, Last: 11}, {First: 0, Last: 4}, {First: 9, Last: 14}, {First: 2, Last: 12}}

// child fills the folder and says on its output what it has done.
func child(dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, "manifest"))
	if err != nil {
		return err
	}
	var m manifest.Manifest
	if err := json.Unmarshal(raw, &m); err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(dir, "content"))
	if err != nil {
		return err
	}
	p := &model{m: &m, content: content}
	s, err := shelf.Open(filepath.Join(dir, "folder"), &m, shelf.Options{})
	if err != nil {
		return err
	}
	hashed := 0
	err = s.Recheck(context.Background(), nil, func(i int, data []byte) bool { hashed++; return p.ok(i, data) })
	if err != nil {
		return err
	}
	fmt.Println("hashed", hashed)
	for step, r := range walk {
		need, err := s.Want([]protocol.Range{r})
		if err != nil {
			return err
		}
		list := missing(s, need)
		for k, i := range list {
			data := p.piece(i)
			for at := 0; at < len(data); at += 4 << 10 {
				if _, err := s.WriteAt(i, data[at:min(at+4<<10, len(data))], int64(at)); err != nil {
					return err
				}
			}
			if err := s.Commit(i); err != nil {
				return err
			}
			fmt.Println("done", i)
			if k == len(list)/2 {
				if _, err := s.Repair(context.Background(), fmt.Sprintf("blk.%04d.gguf", r.First)); err != nil {
					return err
				}
			}
		}
		if err := s.Flush(context.Background()); err != nil {
			return err
		}
		fmt.Println("trim", step)
		if _, err := s.Trim(0, []protocol.Range{r}); err != nil {
			return err
		}
	}
	fmt.Println("finished")
	return s.Close()
}

// TestKilledAtAnyMomentResumes kills the process that fills a folder, 20 times
// at random moments: what was committed is there, nothing is hashed without
// need, and the end is as if nothing had happened.
func TestKilledAtAnyMomentResumes(t *testing.T) {
	t.Parallel()
	p := publish(t, variants()["untied"])
	dir := t.TempDir()
	raw, err := json.Marshal(p.m)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"manifest": raw, "content": p.content} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(dir, "folder")
	rnd := rand.New(rand.NewPCG(20, 20))
	kept := map[int]bool{} // pieces that have to be there
	for round := range 21 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+dir)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		left := 1 + rnd.IntN(40) // lines until the end
		finished, killed := false, false
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var n int
			switch line := lines.Text(); {
			case line == "finished":
				finished = true
			case scan(line, "hashed %d", &n):
				if most := p.m.Torrent.Pieces / 4; n > most {
					t.Errorf("round %d: %d pieces were hashed after a kill", round, n)
				}
			case scan(line, "done %d", &n):
				kept[n] = true
			case scan(line, "trim %d", &n):
				need, err := p.m.NeedAll(walk[n])
				if err != nil {
					t.Fatal(err)
				}
				for i := range kept {
					if !slices.Contains(pieces(need), i) {
						delete(kept, i)
					}
				}
			default:
				t.Fatalf("line %q", line)
			}
			if left--; left == 0 && round < 20 {
				killed = true
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := cmd.Wait(); !killed && (err != nil || !finished) {
			t.Fatalf("the child failed: %v\n%s", err, stderr.String())
		}
		s := open(t, p, folder)
		lost := 0
		for i := range kept {
			if !s.Complete(i) {
				lost++
			}
		}
		// A killed Repair of a sound file costs nothing, a killed Trim may
		// clear pieces that nobody wants any more: kept does not hold them.
		if lost > 0 {
			t.Errorf("round %d: %d committed pieces are lost", round, lost)
		}
		readsAs(t, p, s, rnd)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	sameStore(t, p, folder, walk[len(walk)-1])
	for _, sub := range []string{"staging", "partial"} {
		if list, err := os.ReadDir(filepath.Join(folder, sub)); err != nil || len(list) > 0 {
			t.Errorf("%s holds %v (%v)", sub, list, err)
		}
	}
}

func scan(line, format string, n *int) bool {
	k, err := fmt.Sscanf(line, format, n)
	return k == 1 && err == nil
}
