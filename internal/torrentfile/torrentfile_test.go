package torrentfile_test

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/anacrolix/torrent/bencode"
	"github.com/anacrolix/torrent/metainfo"
	"github.com/google/go-cmp/cmp"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/torrentfile"
)

func shared(t testing.TB, parts ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{"..", "..", "..", "shared", "testdata", "torrent"}, parts...)...)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("SKIPPED: no shared test data: %v", err)
	}
	return path
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func invalid(err error) bool { return errors.Is(err, &protocol.Error{Code: protocol.CodeModelInvalid}) }

// agree holds what we read to what the BitTorrent library reads.
func agree(t *testing.T, b []byte, i *torrentfile.Info) {
	t.Helper()
	mi, err := metainfo.Load(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("the library refuses what we accept: %v", err)
	}
	info, err := mi.UnmarshalInfo()
	if err != nil {
		t.Fatalf("the library refuses the info that we accept: %v", err)
	}
	if h := mi.HashInfoBytes().HexString(); h != i.InfoHash {
		t.Errorf("info hash %s, the library has %s", i.InfoHash, h)
	}
	if info.HasV2() || info.BestName() != i.Name || info.PieceLength != i.PieceLength || !bytes.Equal(info.Pieces, i.Hashes) ||
		info.TotalLength() != i.Length() || info.NumPieces() != i.Pieces() || (info.Private != nil && *info.Private) != i.Private || info.IsDir() == i.Single {
		t.Errorf("%+v\nthe library has %+v", i, info)
	}
	for k, f := range info.UpvertedFiles() {
		path := f.BestPath()
		if i.Single {
			path = []string{info.BestName()}
		}
		if !slices.Equal(path, i.Files[k].Path) || f.Length != i.Files[k].Length {
			t.Errorf("file %d is %+v, the library has %+v", k, i.Files[k], f)
		}
	}
}

// TestLibtorrentFixtures wants everything refused that libtorrent refuses.
func TestLibtorrentFixtures(t *testing.T) {
	t.Parallel()
	table := string(read(t, shared(t, "libtorrent", "expectations.tsv")))
	count := map[string]int{}
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		f := strings.Split(line, "\t")
		b := read(t, shared(t, "libtorrent", f[0]))
		i, err := torrentfile.Parse(b)
		ours := "accept"
		if err != nil {
			ours = "reject"
			if !invalid(err) {
				t.Errorf("%s: %v", f[0], err)
			}
		} else {
			agree(t, b, i)
		}
		count[f[1]+" "+ours]++
		if f[1] == "reject" && ours == "accept" {
			t.Errorf("%s: libtorrent refuses it (%s), we do not", f[0], f[2])
		}
		t.Logf("%-45s libtorrent %-8s ours %s %v", f[0], f[1], ours, err)
	}
	t.Log(count)
	if n := count["reject reject"] + count["accept accept"] + count["accept reject"] + count["unlisted accept"] + count["unlisted reject"]; n != 108 {
		t.Errorf("%d fixtures", n)
	}
	// Strict, not deaf: what is ordinary must pass.
	if count["accept accept"] < 10 {
		t.Errorf("only %d accepted", count["accept accept"])
	}
}

func TestWebtorrentFixtures(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"alice": "722fe65b2aa26d14f35b4ad627d20236e481d924", "leaves": "d2474e86c95b19b8bcfdb92bc12c9d44667cfa36",
		"numbers": "89d97c2261a21b040cf11caa661a3ba7233bb7e6", "lots-of-numbers": "114ead6243792ba56297edbb9a78dfba84d4fc00",
		"folder": "b88da2caac6648e6c7d7687e3f89085f7e230e6b", "leaves-metadata": "d2474e86c95b19b8bcfdb92bc12c9d44667cfa36",
		"bunny": "", "sintel": "",
	} {
		b := read(t, shared(t, "webtorrent", name+".torrent"))
		i, err := torrentfile.Parse(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		agree(t, b, i)
		if want != "" && i.InfoHash != want {
			t.Errorf("%s: info hash %s, want %s", name, i.InfoHash, want)
		}
		t.Log(i, i.Pieces(), i.Announce, i.WebSeeds)
	}
	if i, err := torrentfile.Parse(read(t, shared(t, "webtorrent", "corrupt.torrent"))); !invalid(err) {
		t.Errorf("corrupt: %v, %v", i, err)
	}
	// The pieces are those of the content.
	i, err := torrentfile.Parse(read(t, shared(t, "webtorrent", "alice.torrent")))
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, shared(t, "webtorrent", "alice.txt"))
	var sums []byte
	for piece := range slices.Chunk(text, int(i.PieceLength)) {
		sum := sha1.Sum(piece)
		sums = append(sums, sum[:]...)
	}
	if !bytes.Equal(sums, i.Hashes) || i.Length() != int64(len(text)) {
		t.Error("the hashes are not those of the text")
	}
}

// torrent writes bencoding: maps, slices, strings, ints.
func torrent(t testing.TB, v any) []byte {
	t.Helper()
	b, err := bencode.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type dict = map[string]any

func plain(change func(outer, info dict)) dict {
	info := dict{"name": "m.gguf", "length": 40000, "piece length": 16384, "pieces": strings.Repeat("h", 60)}
	outer := dict{"info": info}
	if change != nil {
		change(outer, info)
	}
	return outer
}

func folder(files ...any) func(outer, info dict) {
	return func(_, info dict) {
		delete(info, "length")
		info["name"], info["files"] = "m", files
	}
}

func file(length int, path ...string) dict { return dict{"length": length, "path": path} }

func TestParse(t *testing.T) {
	t.Parallel()
	b := torrent(t, plain(func(o, i dict) {
		i["private"] = 1
		i["source"] = "here"
		o["announce"] = "http://a/announce"
		o["announce-list"] = [][]string{{"http://a/announce", "udp://b:1"}, {"https://c/x?y=z"}}
		o["url-list"] = "http://w/m.gguf"
		o["comment"] = "by hand"
		o["of others"] = dict{"any": []any{1, "x"}}
	}))
	got, err := torrentfile.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	agree(t, b, got)
	sum := sha1.Sum(torrent(t, plain(func(_, i dict) { i["private"], i["source"] = 1, "here" })["info"]))
	want := &torrentfile.Info{
		InfoHash: hex.EncodeToString(sum[:]), Name: "m.gguf", Single: true, Files: []torrentfile.File{{Path: []string{"m.gguf"}, Length: 40000}},
		PieceLength: 16384, Hashes: []byte(strings.Repeat("h", 60)), Private: true,
		Announce: []string{"http://a/announce", "udp://b:1", "https://c/x?y=z"}, WebSeeds: []string{"http://w/m.gguf"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got.Pieces() != 3 || got.Length() != 40000 {
		t.Errorf("%d pieces of %d bytes", got.Pieces(), got.Length())
	}
	b = torrent(t, plain(folder(file(20000, "a"), file(20000, "sub", "b"))))
	if got, err = torrentfile.Parse(b); err != nil || got.Single || len(got.Files) != 2 {
		t.Errorf("%+v, %v", got, err)
	} else {
		agree(t, b, got)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	set := func(key string, v any) func(_, info dict) { return func(_, i dict) { i[key] = v } }
	outer := func(key string, v any) func(o, _ dict) { return func(o, _ dict) { o[key] = v } }
	many := make([]any, 1025)
	for i := range many {
		many[i] = file(1, fmt.Sprint(i))
	}
	tests := map[string]any{
		"no info":                dict{"announce": "http://a/"},
		"info as text":           dict{"info": "x"},
		"a list":                 []any{plain(nil)},
		"no name":                plain(func(_, i dict) { delete(i, "name") }),
		"path as name":           plain(set("name", "../m.gguf")),
		"absolute name":          plain(set("name", "/m.gguf")),
		"dots":                   plain(set("name", "..")),
		"backslash":              plain(set("name", `a\b`)),
		"device":                 plain(set("name", "NUL.gguf")),
		"invalid UTF-8":          plain(set("name", "m\xff")),
		"two names":              plain(set("name.utf-8", "other")),
		"no length":              plain(func(_, i dict) { delete(i, "length") }),
		"zero length":            plain(set("length", 0)),
		"negative length":        plain(set("length", -40000)),
		"file and files":         plain(set("files", []any{file(40000, "a")})),
		"no piece length":        plain(func(_, i dict) { delete(i, "piece length") }),
		"odd piece length":       plain(set("piece length", 16385)),
		"small pieces":           plain(set("piece length", 8192)),
		"large pieces":           plain(set("piece length", 32<<20)),
		"no pieces":              plain(func(_, i dict) { delete(i, "pieces") }),
		"a hash too few":         plain(set("pieces", strings.Repeat("h", 40))),
		"a hash too many":        plain(set("pieces", strings.Repeat("h", 80))),
		"part of a hash":         plain(set("pieces", strings.Repeat("h", 59))),
		"private 2":              plain(set("private", 2)),
		"version 2":              plain(set("meta version", 2)),
		"file tree":              plain(set("file tree", dict{})),
		"piece layers":           plain(outer("piece layers", dict{})),
		"link":                   plain(set("attr", "l")),
		"padding":                plain(folder(dict{"length": 40000, "path": []string{"a"}, "attr": "p"})),
		"symlink":                plain(folder(dict{"length": 40000, "path": []string{"a"}, "symlink path": []string{"b"}})),
		"no files":               plain(folder()),
		"too many files":         plain(folder(many...)),
		"empty path":             plain(folder(file(40000))),
		"empty part":             plain(folder(file(40000, "a", ""))),
		"parent":                 plain(folder(file(40000, "..", "a"))),
		"slash in a part":        plain(folder(file(40000, "a/b"))),
		"deep path":              plain(folder(file(40000, strings.Split(strings.Repeat("a", 17), "")...))),
		"same file":              plain(folder(file(20000, "a"), file(20000, "A"))),
		"file as folder":         plain(folder(file(20000, "a"), file(20000, "a", "b"))),
		"folder as file":         plain(folder(file(20000, "a", "b"), file(20000, "a"))),
		"two paths":              plain(folder(dict{"length": 40000, "path": []string{"a"}, "path.utf-8": []string{"b"}})),
		"huge sum":               plain(folder(file(1<<62, "a"), file(1<<62, "b"))),
		"announce to a file":     plain(outer("announce", "file:///etc/passwd")),
		"webseed of a file":      plain(outer("url-list", []string{"file:///etc/passwd"})),
		"webseed with a user":    plain(outer("url-list", []string{"http://u:p@h/"})),
		"webseed without a host": plain(outer("url-list", "http:///x")),
	}
	for name, v := range tests {
		if i, err := torrentfile.Parse(torrent(t, v)); !invalid(err) {
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
	good := torrent(t, plain(nil))
	raw := map[string][]byte{
		"empty":           {},
		"behind its end":  append(slices.Clone(good), 'e'),
		"cut":             good[:len(good)-1],
		"number with +":   bytes.Replace(good, []byte("i40000e"), []byte("i+40000e"), 1),
		"leading zero":    bytes.Replace(good, []byte("i40000e"), []byte("i040000e"), 1),
		"negative zero":   bytes.Replace(good, []byte("i40000e"), []byte("i-0e"), 1),
		"long number":     bytes.Replace(good, []byte("i40000e"), []byte("i4000000000000000000000000e"), 1),
		"length with 0":   bytes.Replace(good, []byte("6:length"), []byte("06:length"), 1),
		"negative length": bytes.Replace(good, []byte("6:length"), []byte("-6:length"), 1),
		"beyond the end":  []byte("d4:info99999999:x"),
		"huge text":       []byte("9223372036854775807:"),
		"unsorted":        []byte("d1:bi1e1:ai1ee"),
		"twice":           []byte("d1:ai1e1:ai1ee"),
		"deep":            []byte("d1:a" + strings.Repeat("l", 100000) + strings.Repeat("e", 100000) + "e"),
		"too large":       make([]byte, torrentfile.MaxBytes+1),
	}
	for name, b := range raw {
		if i, err := torrentfile.Parse(b); !invalid(err) {
			t.Errorf("%s: %v, %v", name, i, err)
		}
	}
}

func TestCheckTorrent(t *testing.T) {
	t.Parallel()
	pair := func(files ...any) ([]byte, *manifest.Manifest) {
		b := torrent(t, plain(folder(files...)))
		i, err := torrentfile.Parse(b)
		if err != nil {
			t.Fatal(err)
		}
		m := &manifest.Manifest{Name: "m", Torrent: manifest.Torrent{InfoHash: i.InfoHash, PieceLength: 16384, Pieces: 3}}
		for _, f := range i.Files {
			m.Files = append(m.Files, manifest.File{Name: f.Path[0], Size: f.Length})
		}
		return b, m
	}
	b, m := pair(file(20000, "a"), file(20000, "b"))
	if err := torrentfile.CheckTorrent(b, m); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(m *manifest.Manifest){
		"info hash":    func(m *manifest.Manifest) { m.Torrent.InfoHash = strings.Repeat("0", 40) },
		"name":         func(m *manifest.Manifest) { m.Name = "n" },
		"file name":    func(m *manifest.Manifest) { m.Files[1].Name = "c" },
		"sizes":        func(m *manifest.Manifest) { m.Files[0].Size, m.Files[1].Size = 20001, 19999 },
		"files":        func(m *manifest.Manifest) { m.Files = m.Files[:1] },
		"private":      func(m *manifest.Manifest) { m.Torrent.Private = true },
		"piece length": func(m *manifest.Manifest) { m.Torrent.PieceLength = 32768 },
		"pieces":       func(m *manifest.Manifest) { m.Torrent.Pieces = 2 },
	} {
		b, m := pair(file(20000, "a"), file(20000, "b"))
		change(m)
		if err := torrentfile.CheckTorrent(b, m); !invalid(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A file inside a folder of the same name is not the file.
	b, m = pair(file(40000, "a", "a"))
	if err := torrentfile.CheckTorrent(b, m); !invalid(err) {
		t.Errorf("a folder in between: %v", err)
	}
	if err := torrentfile.CheckTorrent([]byte("x"), m); !invalid(err) {
		t.Errorf("junk: %v", err)
	}
}

// FuzzParse looks for panics, and for files that we accept and the library
// reads in another way.
func FuzzParse(f *testing.F) {
	f.Add(torrent(f, plain(nil)))
	f.Add(torrent(f, plain(folder(file(20000, "a"), file(20000, "sub", "b")))))
	for _, dir := range []string{"libtorrent", "webtorrent"} {
		paths, _ := filepath.Glob(filepath.Join("..", "..", "..", "shared", "testdata", "torrent", dir, "*.torrent"))
		for _, p := range paths {
			if b := read(f, p); len(b) < 1<<16 {
				f.Add(b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		i, err := torrentfile.Parse(b)
		if err != nil {
			if !invalid(err) {
				t.Fatal(err)
			}
			return
		}
		agree(t, b, i)
	})
}
