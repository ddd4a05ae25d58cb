package shelf_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"neuron/engine/artifact/shelf"
	"neuron/engine/protocol"
	"neuron/llama/cut"
	"neuron/llama/gguf"
)

// filled is a shelf with layers 2 to 9 of the untied model.
func filled(t *testing.T) (*model, *shelf.Shelf, protocol.Range, *rand.Rand) {
	t.Helper()
	p := publish(t, variants()["untied"])
	rnd := rand.New(rand.NewPCG(11, 11))
	s := open(t, p, t.TempDir())
	r := protocol.Range{First: 2, Last: 9}
	bring(t, p, s, missing(s, want(t, s, r)), rnd)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p, s, r, rnd
}

// TestDamageIsFoundAndRepaired: whatever happens to a file on the disk, no
// stage is made of it, and only what is damaged is fetched again.
func TestDamageIsFoundAndRepaired(t *testing.T) {
	t.Parallel()
	const layer = "blk.0005.gguf"
	for name, c := range map[string]struct {
		file   string
		harm   func(t *testing.T, path string)
		pieces int // at most
	}{
		"flipped bit": {layer, func(t *testing.T, path string) { flip(t, path, cut.HeaderRegion+5000) }, 2},
		"hole": {layer, func(t *testing.T, path string) {
			st, err := os.Stat(path)
			if err == nil {
				err = errors.Join(os.Truncate(path, cut.HeaderRegion+100), os.Truncate(path, st.Size()))
			}
			if err != nil {
				t.Fatal(err)
			}
		}, 4},
		"cut short": {layer, func(t *testing.T, path string) {
			st, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, st.Size()-1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, 2},
		"too long": {layer, func(t *testing.T, path string) {
			st, err := os.Stat(path)
			if err == nil {
				err = os.Truncate(path, st.Size()+7)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, 0},
		"gone": {layer, func(t *testing.T, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}, 5},
		"tensor file": {"rope_freqs.weight.gguf", func(t *testing.T, path string) { flip(t, path, cut.HeaderRegion+4) }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s, r, rnd := filled(t)
			path := filepath.Join(s.Dir(), c.file)
			store, err := cut.Open(s.Dir())
			if err != nil {
				t.Fatal(err)
			}
			ready, err := store.Prepare(r.First, r.Last)
			if err != nil {
				t.Fatal(err)
			}
			ready.Release()
			c.harm(t, path)
			if bad, err := store.Verify(t.Context(), r.First, r.Last, cut.VerifyOptions{}); err != nil || !slices.Equal(bad, []string{c.file}) {
				t.Fatalf("found %v, %v", bad, err)
			}
			var damaged *cut.DamagedError
			if _, err := store.Prepare(r.First, r.Last); !errors.As(err, &damaged) || !slices.Equal(damaged.Files, []string{c.file}) ||
				!errors.Is(err, cut.ErrUnverified) || !errors.Is(err, cut.ErrShard) {
				t.Fatalf("a stage of a damaged file: %v", err)
			}
			// A stage that runs keeps its file, as it is.
			var mapped *gguf.File
			var before []byte
			if name == "flipped bit" {
				if mapped, err = gguf.Open(path); err != nil {
					t.Fatal(err)
				}
				defer mapped.Close()
				x := mapped.Header().Tensors[len(mapped.Header().Tensors)-1]
				before = bytes.Clone(mapped.TensorData(x))
			}
			list, err := s.Repair(t.Context(), c.file)
			if err != nil || len(list) > c.pieces || (len(list) == 0) != (c.pieces == 0) {
				t.Fatalf("repair: pieces %v, %v; want at most %d", list, err, c.pieces)
			}
			for _, i := range list {
				if s.Complete(i) {
					t.Errorf("piece %d is complete after the repair", i)
				}
			}
			readsAs(t, p, s, rnd)
			if len(list) > 0 {
				if _, err := store.Prepare(r.First, r.Last); !errors.Is(err, cut.ErrShard) {
					t.Errorf("a stage before the file is whole again: %v", err)
				}
			}
			bring(t, p, s, list, rnd)
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if mapped != nil {
				x := mapped.Header().Tensors[len(mapped.Header().Tensors)-1]
				if !bytes.Equal(before, mapped.TensorData(x)) {
					t.Error("the repair wrote into a mapped file")
				}
			}
			sameStore(t, p, s.Dir(), r)
			readsAs(t, p, s, rnd)
			if list, err := s.Repair(t.Context(), c.file); err != nil || len(list) > 0 {
				t.Errorf("repair of a sound file: %v, %v", list, err)
			}
		})
	}
}

func TestDamagedMetadataAreMadeAgain(t *testing.T) {
	t.Parallel()
	p, s, r, rnd := filled(t)
	for _, name := range []string{"meta.gguf", "header-0.bin"} {
		flip(t, filepath.Join(s.Dir(), name), 40)
		_, err := cut.Open(s.Dir())
		if damaged := (&cut.DamagedError{}); name == "meta.gguf" && (!errors.As(err, &damaged) || !slices.Equal(damaged.Files, []string{name})) {
			t.Errorf("damaged metadata: %v", err)
		}
		list, err := s.Repair(t.Context(), name)
		if err != nil || (len(list) > 0) != (name == "header-0.bin") {
			t.Fatalf("repair of %s: %v, %v", name, list, err)
		}
		bring(t, p, s, list, rnd)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		sameStore(t, p, s.Dir(), r)
		readsAs(t, p, s, rnd)
	}
	// Both at once.
	flip(t, filepath.Join(s.Dir(), "meta.gguf"), 50)
	flip(t, filepath.Join(s.Dir(), "header-0.bin"), 60)
	list, err := s.Repair(t.Context(), "meta.gguf")
	if err != nil || len(list) == 0 {
		t.Fatalf("repair: %v, %v", list, err)
	}
	bring(t, p, s, list, rnd)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameStore(t, p, s.Dir(), r)
	if _, err := s.Repair(t.Context(), "none"); code(err) != protocol.CodeNotFound {
		t.Errorf("a file that the model has not: %v", err)
	}
}

// TestListedFilesAreNeverWritten commits a boundary piece a second time: the
// files that a stage may map keep their times, and a piece whose hash did not
// match changes nothing.
func TestListedFilesAreNeverWritten(t *testing.T) {
	t.Parallel()
	p, s, r, rnd := filled(t)
	need := want(t, s, r)
	times := func() map[string]string {
		out := map[string]string{}
		for _, name := range fileNames(s.Dir()) {
			st, err := os.Stat(filepath.Join(s.Dir(), name))
			if err != nil {
				t.Fatal(err)
			}
			out[name] = fmt.Sprint(st.ModTime().UnixNano(), st.Size())
		}
		return out
	}
	before := times()
	for _, piece := range pieces(need) {
		if err := s.Reject(piece); err != nil || s.Complete(piece) {
			t.Fatalf("reject %d: %v", piece, err)
		}
		garbage := make([]byte, len(p.piece(piece)))
		if _, err := s.WriteAt(piece, garbage, 0); err != nil {
			t.Fatal(err)
		}
		if err := s.Reject(piece); err != nil {
			t.Fatal(err)
		}
		if err := s.Commit(piece); code(err) != protocol.CodeNotFound {
			t.Errorf("a rejected piece: %v", err)
		}
	}
	bring(t, p, s, pieces(need), rnd)
	if now := times(); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("files were written: %v, before %v", now, before)
	}
	readsAs(t, p, s, rnd)
}

// TestProvenPieceRenewsADamagedFile: a piece whose hash matched tells that a
// file of the folder is wrong, and the other pieces that this costs are named.
func TestProvenPieceRenewsADamagedFile(t *testing.T) {
	t.Parallel()
	p, s, r, rnd := filled(t)
	dir := s.Dir()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var cleared []int
	s, err := shelf.Open(dir, p.m, shelf.Options{Cleared: func(list []int) { cleared = append(cleared, list...) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	need := want(t, s, r)
	// The same byte of every tensor, so that several pieces are damaged.
	const file = "blk.0004.gguf"
	store, err := cut.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range store.Index().Files[file] {
		flip(t, filepath.Join(dir, file), cut.HeaderRegion+int64(x.Offset)+7)
	}
	var found []int
	err = s.Recheck(t.Context(), pieces(need), func(i int, data []byte) bool {
		if !p.ok(i, data) {
			found = append(found, i)
			return len(found) > 1 // the first alone is reported
		}
		return true
	})
	if err != nil || len(found) < 2 {
		t.Fatalf("damaged pieces %v, %v", found, err)
	}
	bring(t, p, s, missing(s, need), rnd)
	slices.Sort(cleared)
	if left := missing(s, need); len(left) == 0 || !slices.Equal(left, cleared) {
		t.Errorf("missing %v, cleared %v", left, cleared)
	}
	bring(t, p, s, missing(s, need), rnd)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameStore(t, p, s.Dir(), r)
	readsAs(t, p, s, rnd)
}

// TestLostStateIsProvenAgain: state files are a hint; without them, or after
// the computer has started again, pieces are proven by their hash and not
// fetched.
func TestLostStateIsProvenAgain(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, dir string){
		"state gone":      func(t *testing.T, dir string) { remove(t, dir, "pieces.state") },
		"state cut short": func(t *testing.T, dir string) { truncate(t, dir, "pieces.state", 60) },
		"state of zeros":  func(t *testing.T, dir string) { zero(t, dir, "pieces.state") },
		"state flipped":   func(t *testing.T, dir string) { flip(t, filepath.Join(dir, "pieces.state"), 70) },
		"index gone":      func(t *testing.T, dir string) { remove(t, dir, "shard.json") },
		"index torn":      func(t *testing.T, dir string) { truncate(t, dir, "shard.json", 100) },
		"computer restarted": func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "proven"), []byte("another boot"), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"times of service torn": func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "served.json"), []byte(`{"version":`), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, s, r, rnd := filled(t)
			dir := s.Dir()
			wide := protocol.Range{First: 1, Last: 12}
			need := want(t, s, wide)
			list := missing(s, need)
			bring(t, p, s, list[:len(list)/2], rnd) // some files are partial
			lacking := missing(s, need)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			harm(t, dir)
			s = open(t, p, dir)
			need = want(t, s, wide)
			readsAs(t, p, s, rnd)
			if err := s.Recheck(t.Context(), s.Unproven(), p.ok); err != nil {
				t.Fatal(err)
			}
			if err := s.Close(); err != nil { // what was proven stays so
				t.Fatal(err)
			}
			s = open(t, p, dir)
			want(t, s, wide)
			if now := missing(s, need); !slices.Equal(now, lacking) {
				t.Errorf("missing %v, before %v", now, lacking)
			}
			if n := s.Unproven(); len(n) > 0 {
				t.Errorf("unproven after the check: %v", n)
			}
			readsAs(t, p, s, rnd)
			bring(t, p, s, missing(s, need), rnd)
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			sameStore(t, p, dir, wide)
			sameStore(t, p, dir, r)
		})
	}
}

func remove(t *testing.T, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, dir, name string, n int64) {
	t.Helper()
	if err := os.Truncate(filepath.Join(dir, name), n); err != nil {
		t.Fatal(err)
	}
}

func zero(t *testing.T, dir, name string) {
	t.Helper()
	st, err := os.Stat(filepath.Join(dir, name))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), make([]byte, st.Size()), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestManyAtOnce commits from many goroutines while others read pieces, and
// another owner verifies and prepares stages of the same folder.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	p := publish(t, variants()["untied"])
	dir := t.TempDir()
	s := open(t, p, dir)
	first, all := protocol.Range{First: 3, Last: 6}, protocol.Range{First: 0, Last: p.m.Layers}
	bring(t, p, s, missing(s, want(t, s, first)), rand.New(rand.NewPCG(1, 1)))
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	need := want(t, s, all)
	work := make(chan int)
	var writers, others sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(w), 9))
			for i := range work {
				data := p.piece(i)
				half := rnd.IntN(len(data))
				for _, c := range [][2]int{{half, len(data)}, {0, half}} {
					if _, err := s.WriteAt(i, data[c[0]:c[1]], int64(c[0])); err != nil {
						t.Errorf("write %d: %v", i, err)
					}
				}
				if err := s.Commit(i); err != nil {
					t.Errorf("commit %d: %v", i, err)
				}
			}
		})
	}
	stop := make(chan struct{})
	others.Go(func() {
		rnd := rand.New(rand.NewPCG(5, 9))
		buf := make([]byte, p.m.Torrent.PieceLength)
		for {
			select {
			case <-stop:
				return
			default:
			}
			i := rnd.IntN(p.m.Torrent.Pieces)
			if n, err := s.ReadAt(i, buf[:len(p.piece(i))], 0); err == nil && !bytes.Equal(buf[:n], p.piece(i)) {
				t.Errorf("piece %d has other bytes", i)
				return
			}
		}
	})
	others.Go(func() {
		store, err := cut.Open(dir)
		if err != nil {
			t.Error(err)
			return
		}
		for k := 0; ; k++ {
			select {
			case <-stop:
				return
			default:
			}
			got, err := store.PrepareVerified(t.Context(), first.First+k%2, first.Last, cut.VerifyOptions{Again: true})
			if err != nil {
				t.Errorf("prepare: %v", err)
				return
			}
			got.Release()
		}
	})
	for _, i := range missing(s, need) {
		work <- i
	}
	close(work)
	writers.Wait()
	err := s.Flush(t.Context())
	close(stop)
	others.Wait()
	if err != nil {
		t.Fatal(err)
	}
	sameStore(t, p, dir, all)
	readsAs(t, p, s, rand.New(rand.NewPCG(6, 6)))
}

// TestContentThatContradictsTheManifest: pieces whose SHA-1 matches are not
// yet what the signed manifest promises.
func TestContentThatContradictsTheManifest(t *testing.T) {
	t.Parallel()
	p := publish(t, variants()["untied"])
	r := protocol.Range{First: 2, Last: 5}
	rnd := rand.New(rand.NewPCG(12, 12))
	header := *p.m
	header.Files = slices.Clone(p.m.Files)
	header.Files[0].HeaderSHA256[3] ^= 1
	lying := &model{paths: p.paths, m: &header, content: p.content}
	s := open(t, lying, t.TempDir())
	bring(t, lying, s, missing(s, want(t, s, r)), rnd)
	for range 2 {
		if err := s.Flush(t.Context()); code(err) != protocol.CodeModelInvalid {
			t.Errorf("another header: %v", err)
		}
	}
	if _, err := cut.ReadIndex(s.Dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a shard folder with it: %v", err)
	}
	for _, f := range s.Progress() {
		if f.Layer >= 0 && (f.Listed || f.Done == f.Bytes) {
			t.Errorf("%+v", f)
		}
	}

	tensor := *p.m
	tensor.Tensors = slices.Clone(p.m.Tensors)
	for i := range tensor.Tensors {
		if tensor.Tensors[i].Name == "blk.3.attn_q.weight" {
			tensor.Tensors[i].SHA256[0] ^= 1
		}
	}
	lying = &model{paths: p.paths, m: &tensor, content: p.content}
	s = open(t, lying, t.TempDir())
	bring(t, lying, s, missing(s, want(t, s, r)), rnd)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	store, err := cut.Open(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	var damaged *cut.DamagedError
	if _, err := store.Prepare(r.First, r.Last); !errors.As(err, &damaged) || !slices.Equal(damaged.Files, []string{"blk.0003.gguf"}) {
		t.Errorf("another tensor: %v", err)
	}
}
