package shelf_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"neuron/engine/artifact/shelf"
	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/llama/cut"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// variants are ways to publish that lay bytes out differently.
func variants() map[string]variant {
	tied, wide, moe := tiny(), tiny(), tiny()
	tied.Tied = true
	wide.Embd, wide.FF, wide.Layers, wide.RopeFreqs = 96, 160, 5, false
	moe.Layers, moe.FF = 3, 4096 // tensors of many pieces, as those of experts
	return map[string]variant{
		"untied":     {shape: tiny(), typ: gguf.TypeQ4_0, piece: 16 << 10},
		"tied":       {shape: tied, typ: gguf.TypeQ8_0, piece: 16 << 10},
		"big pieces": {shape: wide, typ: gguf.TypeF16, piece: 128 << 10},
		"split":      {shape: tiny(), typ: gguf.TypeQ4_0, splits: 3, piece: 16 << 10},
		"padding":    {shape: padded(), typ: gguf.TypeQ4_0, splits: 2, piece: 16 << 10},
		"noise":      {shape: padded(), typ: gguf.TypeQ4_0, splits: 2, piece: 16 << 10, noise: true},
		"experts":    {shape: moe, typ: gguf.TypeQ8_0, piece: 32 << 10},
		"one piece":  {shape: tiny(), typ: gguf.TypeQ4_0, piece: 16 << 20},
	}
}

// padded has tensors with padding behind them: rows of 36 bytes.
func padded() synth.Shape {
	s := tiny()
	s.Vocab, s.FF, s.Layers = 301, 128, 6
	return s
}

// imported is the folder that cut.Import makes of the publisher's files.
func imported(t testing.TB, p *model, r protocol.Range) *cut.Store {
	t.Helper()
	src, err := gguf.OpenModel(p.paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	s, err := cut.Import(context.Background(), src, string(p.m.Model), t.TempDir(), r.First, r.Last, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sameStore compares what the folder's store holds for a range with what
// Import makes, and prepares a stage of it.
func sameStore(t testing.TB, p *model, dir string, r protocol.Range) {
	t.Helper()
	ref := imported(t, p, r)
	got, err := cut.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if bad, err := got.Verify(context.Background(), r.First, r.Last, cut.VerifyOptions{Again: true}); err != nil || len(bad) > 0 {
		t.Fatalf("layers %s: damaged %v, %v", r, bad, err)
	}
	x, y := ref.Index(), got.Index()
	if x.Model != y.Model || x.Alignment != y.Alignment || x.Layers != y.Layers || x.Tied != y.Tied || x.Meta != y.Meta {
		t.Errorf("index %+v, want %+v", y, x)
	}
	for name, tensors := range x.Files {
		if !reflect.DeepEqual(tensors, y.Files[name]) {
			t.Errorf("%s: %+v, want %+v", name, y.Files[name], tensors)
		}
		a, err1 := os.ReadFile(filepath.Join(ref.Dir(), name))
		b, err2 := os.ReadFile(filepath.Join(dir, name))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a[cut.HeaderRegion:], b[cut.HeaderRegion:]) {
			t.Errorf("%s has other data", name)
		}
	}
	a, err := ref.Prepare(r.First, r.Last)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Release()
	b, err := got.Prepare(r.First, r.Last)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	for i := range a.Paths {
		x, err1 := os.ReadFile(a.Paths[i])
		y, err2 := os.ReadFile(b.Paths[i])
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(x, y) {
			t.Errorf("split file %s differs (%v)", filepath.Base(a.Paths[i]), err)
		}
	}
}

func fileNames(dir string) []string {
	var out []string
	list, _ := filepath.Glob(filepath.Join(dir, "*.gguf"))
	for _, path := range list {
		out = append(out, filepath.Base(path))
	}
	return out
}

// TestAnyOrderOfPiecesGivesThePublishersBytes walks random ranges over models
// of all layouts: what is fetched is what is missing, every complete piece
// reads as published at any time, and the folder is the one that cut.Import
// makes.
func TestAnyOrderOfPiecesGivesThePublishersBytes(t *testing.T) {
	t.Parallel()
	for name, v := range variants() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := publish(t, v)
			for seed := range uint64(2) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				dir := t.TempDir()
				s := open(t, p, dir)
				var held []protocol.Range
				for range 4 {
					a := rnd.IntN(p.m.Layers)
					r := protocol.Range{First: a, Last: a + 1 + rnd.IntN(p.m.Layers-a)}
					held = append(held, r)
					need := want(t, s, r)
					bring(t, p, s, missing(s, need), rnd)
					if left := missing(s, need); len(left) > 0 {
						t.Fatalf("layers %s: pieces %v are missing", r, left)
					}
					if err := s.Flush(t.Context()); err != nil {
						t.Fatal(err)
					}
					for _, f := range s.Progress() {
						if !f.Listed && f.Layer >= 0 || f.Done != f.Bytes {
							t.Errorf("layers %s: %+v", r, f)
						}
					}
					sameStore(t, p, dir, r)
					readsAs(t, p, s, rnd)
					switch rnd.IntN(3) {
					case 0: // a restart forgets nothing
						if err := s.Close(); err != nil {
							t.Fatal(err)
						}
						s = open(t, p, dir)
						if left := missing(s, need); len(left) > 0 {
							t.Fatalf("after a restart pieces %v are missing", left)
						}
						readsAs(t, p, s, rnd)
					case 1: // dropping the others loses nothing of this range
						if _, err := s.Trim(0, []protocol.Range{r}); err != nil {
							t.Fatal(err)
						}
						held = []protocol.Range{r}
						if left := missing(s, need); len(left) > 0 {
							t.Fatalf("dropping others lost pieces %v", left)
						}
						readsAs(t, p, s, rnd)
						sameStore(t, p, dir, r)
					}
				}
				if !v.noise {
					foreign(t, p, dir, held)
				}
			}
		})
	}
}

// foreign checks that side files hold at most the boundary pieces of the runs
// of layers that the folder has.
func foreign(t *testing.T, p *model, dir string, held []protocol.Range) {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(dir, "side"))
	if err != nil {
		t.Fatal(err)
	}
	need, err := p.m.NeedAll(held...)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for range need.Extents {
		most += 2
	}
	if len(list) > most {
		t.Errorf("%d side files for %d runs of bytes", len(list), len(need.Extents))
	}
}

// TestMovingFetchesOnlyTheNewLayers goes from 4-11 to 6-13: layers 11 and 12
// are fetched, data that is there is neither written nor moved.
func TestMovingFetchesOnlyTheNewLayers(t *testing.T) {
	t.Parallel()
	p := publish(t, variants()["untied"])
	rnd := rand.New(rand.NewPCG(1, 2))
	dir := t.TempDir()
	s := open(t, p, dir)
	bring(t, p, s, missing(s, want(t, s, protocol.Range{First: 4, Last: 11})), rnd)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	store, err := cut.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := store.Prepare(4, 11)
	if err != nil {
		t.Fatal(err)
	}
	prepared.Release()
	before := map[string][]byte{}
	for _, name := range fileNames(dir) {
		if before[name], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	need := want(t, s, protocol.Range{First: 6, Last: 13})
	fetch := missing(s, need)
	var bytesOfNew int64
	for i := range p.m.Tensors {
		if x := &p.m.Tensors[i]; x.Layer == 11 || x.Layer == 12 {
			bytesOfNew += x.Bytes
		}
	}
	if most := bytesOfNew/p.m.Torrent.PieceLength + 2; int64(len(fetch)) > most {
		t.Errorf("%d pieces are fetched, the new layers lie in %d", len(fetch), most)
	}
	bring(t, p, s, fetch, rnd)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, raw := range before {
		now, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(raw, now) {
			t.Errorf("%s has changed (%v)", name, err)
		}
	}
	sameStore(t, p, dir, protocol.Range{First: 6, Last: 13})
	readsAs(t, p, s, rnd)
}

// TestStemAlone: a gateway needs a model's metadata and fetches no more.
func TestStemAlone(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		p := publish(t, variant{shape: tiny(), typ: gguf.TypeQ4_0, piece: 16 << 10, whole: whole})
		dir := t.TempDir()
		s := open(t, p, dir)
		need := want(t, s)
		if got, most := int64(len(pieces(need))), p.m.Files[0].Header/p.m.Torrent.PieceLength+1; got > most {
			t.Errorf("%d pieces, the header lies in %d", got, most)
		}
		bring(t, p, s, pieces(need), rand.New(rand.NewPCG(3, 3)))
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		store, err := cut.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if store.Model().Layers != p.m.Layers || store.Meta().Architecture() != "llama" {
			t.Errorf("metadata %+v", store.Model())
		}
		readsAs(t, p, s, rand.New(rand.NewPCG(3, 4)))
	}
}

// TestWholeModelsAreThePublishersFiles: a model that is not cut lies in the
// folder as it was published.
func TestWholeModelsAreThePublishersFiles(t *testing.T) {
	t.Parallel()
	for _, splits := range []int{1, 3} {
		p := publish(t, variant{shape: tiny(), typ: gguf.TypeQ4_0, piece: 16 << 10, whole: true, splits: splits})
		rnd := rand.New(rand.NewPCG(4, 4))
		dir := t.TempDir()
		s := open(t, p, dir)
		if _, err := s.Want([]protocol.Range{{First: 0, Last: 3}}); code(err) != protocol.CodeModelUncut {
			t.Errorf("a part of it: %v", err)
		}
		bring(t, p, s, pieces(want(t, s)), rnd) // the header first
		readsAs(t, p, s, rnd)
		need := want(t, s, protocol.Range{First: 0, Last: p.m.Layers})
		list := missing(s, need)
		bring(t, p, s, list[1:], rnd)
		if err := s.Flush(t.Context()); err != nil || s.Paths() != nil {
			t.Errorf("incomplete: %v, %v", s.Paths(), err)
		}
		bring(t, p, s, list[:1], rnd)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(filepath.Join(dir, "side")); len(left) > 0 {
			t.Errorf("%d side files are left", len(left))
		}
		paths := s.Paths()
		for i, path := range paths {
			a, err1 := os.ReadFile(path)
			b, err2 := os.ReadFile(p.paths[i])
			if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
				t.Errorf("%s differs (%v)", path, err)
			}
		}
		if len(paths) != len(p.paths) {
			t.Errorf("paths %v", paths)
		}
		readsAs(t, p, s, rnd)
		damageWhole(t, p, s, paths[len(paths)-1], rnd)
		// Dropped but for the metadata.
		dropped, err := s.Trim(0, nil)
		if err != nil || len(dropped) != len(paths) || s.Paths() != nil {
			t.Errorf("dropped %v, %v", dropped, err)
		}
		if left := missing(s, want(t, s)); len(left) > 0 {
			t.Errorf("the metadata's pieces %v went too", left)
		}
		readsAs(t, p, s, rnd)
	}
}

// damageWhole flips a bit in a publisher's file and repairs it.
func damageWhole(t *testing.T, p *model, s *shelf.Shelf, path string, rnd *rand.Rand) {
	t.Helper()
	flip(t, path, p.m.Files[len(p.m.Files)-1].Size/2)
	files := make([]cut.Whole, len(p.m.Files))
	for i, f := range p.m.Files {
		files[i] = cut.Whole{Path: s.Paths()[i], Size: f.Size, SHA256: f.SHA256.String()}
	}
	bad, err := cut.VerifyWhole(t.Context(), "", files, cut.VerifyOptions{})
	if err != nil || !slices.Equal(bad, []int{len(files) - 1}) {
		t.Fatalf("damaged %v, %v", bad, err)
	}
	list, err := s.Repair(t.Context(), "model/"+filepath.Base(path))
	if err != nil || len(list) == 0 || len(list) == p.m.Torrent.Pieces {
		t.Fatalf("repair: pieces %v, %v", list, err)
	}
	bring(t, p, s, list, rnd)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if bad, err := cut.VerifyWhole(t.Context(), "", files, cut.VerifyOptions{}); err != nil || len(bad) > 0 {
		t.Errorf("after repair damaged: %v, %v", bad, err)
	}
}

// flip changes a bit of a file in place, as a failing disk would.
func flip(t testing.TB, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 4
	if _, err := f.WriteAt(b, at); err != nil {
		t.Fatal(err)
	}
}

func TestOneOwnerPerFolder(t *testing.T) {
	t.Parallel()
	p := publish(t, variants()["untied"])
	dir := t.TempDir()
	s := open(t, p, dir)
	if _, err := shelf.Open(dir, p.m, shelf.Options{}); code(err) != protocol.CodeAlreadyRunning {
		t.Errorf("a second owner: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
	for name, err := range map[string]error{
		"write":  second(s.WriteAt(0, []byte("x"), 0)),
		"read":   second(s.ReadAt(0, make([]byte, 1), 0)),
		"commit": s.Commit(0),
		"want":   second(s.Want(nil)),
		"flush":  s.Flush(t.Context()),
		"trim":   second(s.Trim(0, nil)),
		"repair": second(s.Repair(t.Context(), "meta.gguf")),
	} {
		if code(err) != protocol.CodeShutdown {
			t.Errorf("%s after Close: %v", name, err)
		}
	}
	s.Touch(protocol.Range{First: 0, Last: 1})
	open(t, p, dir)
}

func second[T any](_ T, err error) error { return err }

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	p := publish(t, variants()["untied"])
	other := publish(t, variants()["tied"])
	dir := t.TempDir()
	s := open(t, p, dir)
	bring(t, p, s, pieces(want(t, s)), rand.New(rand.NewPCG(1, 1)))
	if err := errors.Join(s.Flush(t.Context()), s.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := shelf.Open(dir, other.m, shelf.Options{}); code(err) != protocol.CodeModelInvalid || !strings.Contains(fmt.Sprint(err), "another model") {
		t.Errorf("another model's folder: %v", err)
	}
	if _, err := shelf.Open(p.paths[0], p.m, shelf.Options{}); code(err) != protocol.CodeDataFolder {
		t.Errorf("a file for a folder: %v", err)
	}
	for name, change := range map[string]func(*manifest.Manifest){
		"path in a tensor's name":   func(m *manifest.Manifest) { m.Tensors[0].Name = "../../etc/passwd" },
		"tensor called meta":        func(m *manifest.Manifest) { rename(m, "rope_freqs.weight", "meta") },
		"tensor named like a layer": func(m *manifest.Manifest) { rename(m, "rope_freqs.weight", "blk.0001") },
		"tensor of another layer":   func(m *manifest.Manifest) { rename(m, "blk.3.attn_q.weight", "blk.4.attn_q2.weight") },
		"other bytes than its shape": func(m *manifest.Manifest) {
			m.Tensors[len(m.Tensors)-1].Bytes--
		},
		"unknown type": func(m *manifest.Manifest) { m.Tensors[2].Type = 999 },
	} {
		m := *p.m
		m.Tensors = slices.Clone(p.m.Tensors)
		change(&m)
		if _, err := shelf.Open(t.TempDir(), &m, shelf.Options{}); code(err) != protocol.CodeModelInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func rename(m *manifest.Manifest, from, to string) {
	for i := range m.Tensors {
		if m.Tensors[i].Name == from {
			m.Tensors[i].Name = to
		}
	}
}

// TestAdoptedFilesAreServedWhereTheyLie: nothing is copied, everything is
// complete, and a file that changes is not believed any more.
func TestAdoptedFilesAreServedWhereTheyLie(t *testing.T) {
	t.Parallel()
	p := publish(t, variants()["split"])
	rnd := rand.New(rand.NewPCG(5, 5))
	dir := t.TempDir()
	s := open(t, p, dir)
	if err := s.Adopt(t.Context(), p.paths[:2], nil); code(err) != protocol.CodeModelInvalid {
		t.Errorf("two files of three: %v", err)
	}
	if err := s.Adopt(t.Context(), []string{p.paths[0], p.paths[2], p.paths[1]}, nil); code(err) != protocol.CodeModelInvalid {
		t.Errorf("files in another order: %v", err)
	}
	if err := s.Adopt(t.Context(), []string{p.paths[0], p.paths[1], "none"}, nil); code(err) != protocol.CodeNotFound {
		t.Errorf("a file that is not there: %v", err)
	}
	var last, all int64
	if err := s.Adopt(t.Context(), p.paths, func(done, total int64) { last, all = done, total }); err != nil {
		t.Fatal(err)
	}
	if last != all {
		t.Errorf("progress ended at %d of %d", last, all)
	}
	need := want(t, s, protocol.Range{First: 0, Last: p.m.Layers})
	if left := missing(s, need); len(left) > 0 {
		t.Errorf("pieces %v are missing", left)
	}
	readsAs(t, p, s, rnd)
	if !slices.Equal(s.Paths(), p.paths) {
		t.Errorf("paths %v", s.Paths())
	}
	if used, err := s.Used(); err != nil || used > int64(len(p.content))/2 {
		t.Errorf("the folder takes %d bytes (%v)", used, err)
	}
	for _, f := range s.Progress() {
		if !f.Listed || f.Done != f.Bytes {
			t.Errorf("%+v", f)
		}
	}
	if n, err := s.WriteAt(0, p.piece(0), 0); err != nil || n != len(p.piece(0)) {
		t.Errorf("a piece that arrives all the same: %d, %v", n, err)
	}
	flip(t, p.paths[1], 100)
	at := p.m.Files[0].Size / p.m.Torrent.PieceLength
	if _, err := s.ReadAt(int(at)+1, make([]byte, 10), 0); code(err) != protocol.CodeDataFolder {
		t.Errorf("a changed file is read: %v", err)
	}
	if err := s.Adopt(t.Context(), p.paths, nil); code(err) != protocol.CodeModelInvalid {
		t.Errorf("a changed file is adopted: %v", err)
	}
	if err := s.Adopt(t.Context(), nil, nil); err != nil || s.Complete(0) {
		t.Errorf("the end of the adoption: %v", err)
	}
}

// TestFolderOfAnImport: layers that cut.Import wrote are found and served, and
// an import into a shelf's folder is respected.
func TestFolderOfAnImport(t *testing.T) {
	t.Parallel()
	p := publish(t, variants()["untied"])
	rnd := rand.New(rand.NewPCG(6, 6))
	dir := t.TempDir()
	src, err := gguf.OpenModel(p.paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	importLayers := func(first, last int) {
		t.Helper()
		if _, err := cut.Import(t.Context(), src, string(p.m.Model), dir, first, last, nil); err != nil {
			t.Fatal(err)
		}
	}
	importLayers(3, 8)
	s := open(t, p, dir)
	r := protocol.Range{First: 3, Last: 10}
	need := want(t, s, r)
	if list := missing(s, need); len(list) != len(pieces(need)) {
		t.Errorf("pieces are complete without a check: %v are missing of %v", list, need.Pieces)
	}
	unproven := s.Unproven()
	if err := s.Recheck(t.Context(), nil, p.ok); err != nil {
		t.Fatal(err)
	}
	list := missing(s, need)
	if len(list) == len(pieces(need)) || len(unproven) == 0 {
		t.Errorf("no piece was won back (%v)", unproven)
	}
	readsAs(t, p, s, rnd)
	bring(t, p, s, list[:len(list)/2], rnd)
	importLayers(7, 10)
	bring(t, p, s, missing(s, need), rnd)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameStore(t, p, dir, r)
	readsAs(t, p, s, rnd)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, p, dir)
	if left := missing(s, need); len(left) > 0 {
		t.Errorf("after a restart pieces %v are missing", left)
	}
	readsAs(t, p, s, rnd)
}

// TestLeastRecentlyServedGoesFirst keeps dropped layers while there is room.
func TestLeastRecentlyServedGoesFirst(t *testing.T) {
	t.Parallel()
	p := publish(t, variants()["untied"])
	rnd := rand.New(rand.NewPCG(7, 7))
	dir := t.TempDir()
	s := open(t, p, dir)
	bring(t, p, s, missing(s, want(t, s, protocol.Range{First: 2, Last: 9})), rnd)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Touch(protocol.Range{First: 5, Last: 7})
	if err := s.Close(); err != nil { // the times are remembered
		t.Fatal(err)
	}
	s = open(t, p, dir)
	used, err := s.Used()
	if err != nil {
		t.Fatal(err)
	}
	keep := []protocol.Range{{First: 8, Last: 9}}
	if got, err := s.Trim(used, keep); err != nil || len(got) > 0 {
		t.Errorf("dropped %v with room for all (%v)", got, err)
	}
	got, err := s.Trim(used-1, keep)
	if err != nil || !slices.Equal(got, []string{"blk.0002.gguf"}) {
		t.Errorf("dropped %v, %v", got, err)
	}
	readsAs(t, p, s, rnd)
	got, err = s.Trim(0, keep)
	if err != nil || !slices.Equal(got, []string{"blk.0003.gguf", "blk.0004.gguf", "blk.0007.gguf", "blk.0005.gguf", "blk.0006.gguf"}) {
		t.Errorf("dropped %v, %v", got, err)
	}
	x, err := cut.ReadIndex(dir)
	if err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(x.Files)); !slices.Equal(names, []string{"blk.0008.gguf", "rope_freqs.weight.gguf"}) {
		t.Errorf("listed are %v", names)
	}
	readsAs(t, p, s, rnd)
	// And back again: only what went is fetched.
	need := want(t, s, protocol.Range{First: 2, Last: 9})
	bring(t, p, s, missing(s, need), rnd)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	sameStore(t, p, dir, protocol.Range{First: 2, Last: 9})
	readsAs(t, p, s, rnd)
}
