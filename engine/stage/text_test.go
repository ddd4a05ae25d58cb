package stage_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/internal/leaktest"
)

func sharedFile(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("NEURON_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(dir, "testdata", name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("NOT TESTED: no %s (set NEURON_SHARED)", path)
	}
	return path
}

// TestTextGolden tokenizes texts whose ids were computed elsewhere.
func TestTextGolden(t *testing.T) {
	leaktest.Check(t)
	raw, err := os.ReadFile(sharedFile(t, "gguf/stories260K.golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Tokenize []struct {
			Text string  `json:"text"`
			IDs  []int32 `json:"ids"`
		} `json:"tokenize"`
	}
	if err := json.Unmarshal(raw, &golden); err != nil || len(golden.Tokenize) == 0 {
		t.Fatalf("golden file: %v", err)
	}
	text := stage.NewText(spawn(), nativeDir(t), sharedFile(t, "gguf/stories260K.gguf"))
	defer text.Close()
	for _, g := range golden.Tokenize {
		got, err := text.Tokenize(within(t), g.Text, false, false)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, g.IDs) {
			t.Errorf("%.40q: %v, want %v", g.Text, got, g.IDs)
		}
		back, err := text.Detokenize(within(t), got, false)
		if err != nil {
			t.Fatal(err)
		}
		if s := string(back); s != " "+g.Text && s != g.Text { // SentencePiece puts a space in front
			t.Errorf("%.40q came back as %.40q", g.Text, s)
		}
	}
	about, version, err := text.About(within(t))
	if err != nil || about.Vocab != 512 || !about.AddBOS || about.BOS == "" || version == "" {
		t.Errorf("about %+v, library %q, %v", about, version, err)
	}
}

func TestTextErrorsAndSpecialTokens(t *testing.T) {
	leaktest.Check(t)
	text := guideText(t)
	plain, err := text.Tokenize(within(t), "<|im_end|>", false, false)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := text.Tokenize(within(t), "<|im_end|>", false, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(parsed) != 1 || len(plain) < 2 {
		t.Fatalf("parsed %v, plain %v", parsed, plain)
	}
	for special, want := range map[bool]string{false: "", true: "<|im_end|>"} {
		if b, err := text.Detokenize(within(t), parsed, special); err != nil || string(b) != want {
			t.Errorf("special %v: %q, %v", special, b, err)
		}
	}
	for _, ids := range [][]int32{{-1}, {1 << 30}} {
		if b, err := text.Detokenize(within(t), ids, false); err == nil {
			t.Errorf("ids %v: %q", ids, b)
		}
	}
	// Texts that clients send; each survives the way there and back.
	for _, s := range []string{"", "\x00", "a\x00b", "\xff\xfe", "é漢字🙂", "<|im_start|>"} {
		ids, err := text.Tokenize(within(t), s, false, false)
		if err != nil {
			t.Errorf("%q: %v", s, err)
			continue
		}
		if b, err := text.Detokenize(within(t), ids, false); err != nil {
			t.Errorf("%q: %q, %v", s, b, err)
		}
	}
	about, _, err := text.About(within(t))
	if err != nil || about.Template == "" || about.EOS == "" {
		t.Errorf("about %+v, %v", about, err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if ids, err := text.Tokenize(t.Context(), "<|im_end|>", false, true); err != nil || !slices.Equal(ids, parsed) {
				t.Errorf("beside others: %v, %v", ids, err)
			}
		})
	}
	wg.Wait()
	text.Close()
	if _, err := text.Tokenize(within(t), "x", false, false); code(err) != protocol.CodeShutdown {
		t.Errorf("after Close: %v", err)
	}
	text.Close()
}

func TestTextOfNothing(t *testing.T) {
	leaktest.Check(t)
	text := stage.NewText(spawn(), nativeDir(t), filepath.Join(t.TempDir(), "none.gguf"))
	defer text.Close()
	if _, err := text.Tokenize(within(t), "x", false, false); code(err) != protocol.CodeModelInvalid {
		t.Errorf("error %v", err)
	}
}
