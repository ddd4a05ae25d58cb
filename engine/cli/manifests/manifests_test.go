package manifests

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"neuron/engine/artifact/artifacttest"
	"neuron/engine/cli/clitest"
	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

const guide = "../../../assets/model/guide-q8_0.gguf"

// in runs the command of this package and wants no error.
func in(t *testing.T, args ...string) string {
	t.Helper()
	return clitest.In(t, Command(), args...)
}

// refused runs it and wants an error with a code.
func refused(t *testing.T, code protocol.Code, args ...string) (out string, err error) {
	t.Helper()
	return clitest.Refused(t, code, Command(), args...)
}

// signed publishes the guide and writes its manifest beside a copy of it.
func signed(t *testing.T) (m *manifest.Manifest, path, file string) {
	t.Helper()
	dir := t.TempDir()
	raw, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, filepath.Base(guide))
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := publish.Build(t.Context(), []string{file}, publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := manifest.Sign(r.Manifest, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "m.json")
	if err := os.WriteFile(path, s.Raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return r.Manifest, path, file
}

func TestManifestShow(t *testing.T) {
	clitest.Golden(t, "manifest-guide-4-6.txt", in(t, "show", guide, "--layers", "4-6"))
	clitest.Golden(t, "manifest-guide-none.txt", in(t, "show", guide, "--layers", "none"))

	m, path, _ := signed(t)
	for _, layers := range []string{"all", "0-3", "4-6", "7-8", "none"} {
		var fast, full, sig needJSON
		for v, args := range map[*needJSON][]string{
			&fast: {guide}, &full: {guide, "--hash"}, &sig: {path},
		} {
			if err := json.Unmarshal([]byte(in(t, append([]string{"show", "--json", "--layers", layers}, args...)...)), v); err != nil {
				t.Fatal(err)
			}
		}
		r := protocol.Range{Last: m.Layers}
		if layers == "none" {
			r = protocol.Range{}
		} else if layers != "all" {
			r, _ = protocol.ParseRange(layers)
		}
		n, err := m.Need(r)
		if err != nil {
			t.Fatal(err)
		}
		for name, v := range map[string]needJSON{"headers only": fast, "hashed": full, "signed": sig} {
			if v.Range != r || v.Need.Bytes != n.Bytes || v.Need.WireBytes != n.WireBytes || len(v.Need.Tensors) != len(n.Tensors) ||
				len(v.Need.Extents) != len(n.Extents) || len(v.Need.Runs) != len(n.Pieces) || v.Need.Weights != m.WeightBytes(r) || v.Name != m.Name {
				t.Errorf("%s, %s: %+v", layers, name, v)
			}
			if hashes := name != "headers only"; (v.Model == m.Model) != hashes || (v.InfoHash == m.Torrent.InfoHash) != hashes ||
				(v.Publisher != "") != (name == "signed") {
				t.Errorf("%s, %s: id %q, info hash %q, publisher %q", layers, name, v.Model, v.InfoHash, v.Publisher)
			}
			for k, x := range v.Need.Tensors {
				y := m.Tensors[n.Tensors[k]]
				if x.Name != y.Name || x.Offset != y.Offset || x.Bytes != y.Bytes || (x.SHA256 == y.SHA256.String()) != (name != "headers only") {
					t.Errorf("%s, %s: tensor %+v", layers, name, x)
				}
			}
		}
	}
	if out := in(t, "show", path); !strings.Contains(out, "\nid         "+string(m.Model)) || !strings.Contains(out, "\npublisher  ") {
		t.Errorf("signed:\n%s", out)
	}

	// A family that is not certified is needed whole.
	raw, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	head := 64 << 10
	unknown := filepath.Join(t.TempDir(), "unknown.gguf")
	if err := os.WriteFile(unknown, append(bytes.ReplaceAll(raw[:head:head], []byte("llama"), []byte("llamx")), raw[head:]...), 0o600); err != nil {
		t.Fatal(err)
	}
	out := in(t, "show", unknown)
	for _, want := range []string{"cuts     none: ", "(100.0 % of the model): whole files, with their headers and 74 tensors", "every node"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	refused(t, protocol.CodeModelUncut, "show", unknown, "--layers", "0-4")

	// A block that predicts further tokens is in the file and in no need.
	dir := t.TempDir()
	plain, predicts := filepath.Join(dir, "plain.gguf"), filepath.Join(dir, "predicts.gguf")
	shape, err := synth.Preset("tiny-qwen2")
	if err == nil {
		err = synth.Write(plain, shape, synth.Options{Type: gguf.TypeQ8_0})
	}
	if err != nil {
		t.Fatal(err)
	}
	artifacttest.Rewrite(t, plain, predicts, "qwen2", func(string) bool { return true }, gguf.KV{Key: "qwen2.nextn_predict_layers", Value: gguf.U32(1)})
	var p needJSON
	if err := json.Unmarshal([]byte(in(t, "show", "--json", predicts)), &p); err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^unused +[0-9.]+ [kM]B \([0-9.]+ %\): no node fetches them$`)
	if out := in(t, "show", predicts); p.Unused <= 0 || p.Need.Bytes+p.Unused > p.Bytes || !line.MatchString(out) {
		t.Errorf("%d of %d bytes are unused, %d are needed:\n%s", p.Unused, p.Bytes, p.Need.Bytes, out)
	}
	refused(t, protocol.CodeRangeInvalid, "show", guide, "--layers", "4-9")
	refused(t, protocol.CodeRangeInvalid, "show", guide, "--layers", "x")
	refused(t, protocol.CodeModelUnknown, "show", filepath.Join(t.TempDir(), "none.gguf"))
}

func TestManifestVerify(t *testing.T) {
	m, path, file := signed(t)
	for _, args := range [][]string{{file}, {filepath.Dir(file)}, {guide}} {
		if out := in(t, append([]string{"verify", path}, args...)...); !strings.Contains(out, "all 74 tensors and 1 header are the publisher's") {
			t.Errorf("%v: %s", args, out)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	change := func(at int64) {
		t.Helper()
		b := bytes.Clone(raw)
		b[at] ^= 4
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	x := m.Tensors[20]
	change(x.Offset)
	if out, err := refused(t, protocol.CodeModelInvalid, "verify", path, file); !strings.Contains(out, x.Name+" (layer ") || strings.Count(out, "differs") != 1 ||
		!strings.Contains(err.Error(), "1 file of 1") {
		t.Errorf("%s%v", out, err)
	}
	change(100)
	if out, _ := refused(t, protocol.CodeModelInvalid, "verify", path, file); !strings.Contains(out, "the header differs") {
		t.Error(out)
	}
	if err := os.Truncate(file, 1000); err != nil {
		t.Fatal(err)
	}
	if out, _ := refused(t, protocol.CodeModelInvalid, "verify", path, file); !strings.Contains(out, "has 1000 bytes, expected ") {
		t.Error(out)
	}
	refused(t, protocol.CodeInvalidRequest, "verify", path, file, file)
	refused(t, protocol.CodeModelUnknown, "verify", path, filepath.Join(t.TempDir(), "none"))
	refused(t, protocol.CodeNotFound, "verify", filepath.Join(t.TempDir(), "none"), file)
	refused(t, protocol.CodeModelInvalid, "verify", guide, file)
	// A manifest that was changed is no manifest.
	s, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s[len(s)/2] ^= 1
	if err := os.WriteFile(path, s, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, protocol.CodeModelInvalid, "show", path)
}

// TestFilesForNamesInAnyOrder: files of a set are told apart by their names.
func TestFilesForNamesInAnyOrder(t *testing.T) {
	m := &manifest.Manifest{Name: "m", Files: []manifest.File{{Name: "a"}, {Name: "b"}}}
	for _, tt := range []struct{ given, want string }{{"x/b y/a", "y/a x/b"}, {"a b", "a b"}, {"x/1 x/2", "x/1 x/2"}, {"x/b x/c", "x/b x/c"}} {
		got, err := filesFor(m, strings.Fields(tt.given))
		if err != nil || strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, %v", tt.given, got, err)
		}
	}
}
