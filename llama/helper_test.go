package llama

import (
	"os"
	"path/filepath"
	"testing"
)

// load opens the real libraries; a machine without them fails, with the hint how
// to install them.
func load(tb testing.TB) {
	tb.Helper()
	dir, err := NativeDir()
	if err != nil {
		tb.Fatal(err)
	}
	if err := Load(dir); err != nil {
		tb.Fatal(err)
	}
}

func guidePath(tb testing.TB) string {
	tb.Helper()
	dir, err := os.Getwd()
	if err != nil {
		tb.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return filepath.Join(dir, "assets", "model", "guide-q8_0.gguf")
		}
		up := filepath.Dir(dir)
		if up == dir {
			tb.Fatal("no go.mod above the working directory")
		}
		dir = up
	}
}

func loadGuide(tb testing.TB, p ModelParams) Model {
	tb.Helper()
	load(tb)
	m, err := LoadModel([]string{guidePath(tb)}, p)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.Free)
	return m
}

func newContext(tb testing.TB, m Model, p ContextParams) Context {
	tb.Helper()
	if p.NCtx == 0 {
		p.NCtx = 256
	}
	c, err := NewContext(m, p)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Free)
	return c
}

func newBatch(tb testing.TB, rows, width int) *Batch {
	tb.Helper()
	b, err := NewBatch(rows, width)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(b.Free)
	return b
}

const chatPrompt = "<|im_start|>user\nWhat is a seam?<|im_end|>\n<|im_start|>assistant\n"

// prompt decodes the prompt as sequence seq with logits for the last row, and
// gives the number of tokens.
func prompt(tb testing.TB, c Context, m Model, text string, seq int32) int {
	tb.Helper()
	ids, err := m.Vocab().Tokenize(text, true, true)
	if err != nil {
		tb.Fatal(err)
	}
	b := newBatch(tb, len(ids), 0)
	for i, id := range ids {
		if err := b.AddToken(id, int32(i), seq, i == len(ids)-1); err != nil {
			tb.Fatal(err)
		}
	}
	if err := c.Decode(b); err != nil {
		tb.Fatal(err)
	}
	return len(ids)
}

// generate answers a prompt with a sampler, up to n tokens.
func generate(tb testing.TB, c Context, m Model, s Sampler, text string, seq int32, n int) []int32 {
	tb.Helper()
	pos := prompt(tb, c, m, text, seq)
	ids, err := m.Vocab().Tokenize(text, true, true)
	if err != nil {
		tb.Fatal(err)
	}
	row := len(ids) - 1
	b := newBatch(tb, 1, 0)
	var out []int32
	for range n {
		id, err := s.Sample(c, row)
		if err != nil {
			tb.Fatal(err)
		}
		out = append(out, id)
		if m.Vocab().IsEOG(id) {
			break
		}
		b.Reset()
		if err := b.AddToken(id, int32(pos), seq, true); err != nil {
			tb.Fatal(err)
		}
		if err := c.Decode(b); err != nil {
			tb.Fatal(err)
		}
		pos++
		row = 0
	}
	return out
}

func chain(tb testing.TB, members ...Sampler) Sampler {
	tb.Helper()
	s := NewChain()
	tb.Cleanup(s.Free)
	for _, m := range members {
		if err := s.Add(m); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}
