package lastwords_test

import (
	"fmt"
	"strings"
	"testing"

	"neuron/internal/lastwords"
)

func TestKeepsTheEnd(t *testing.T) {
	t.Parallel()
	r := lastwords.New(100)
	var all strings.Builder
	for i := range 50 {
		fmt.Fprintf(r, "line %d\n", i)
		fmt.Fprintf(&all, "line %d\n", i)
	}
	if got, want := r.String(), all.String()[all.Len()-100:]; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
	if n, err := r.Write(make([]byte, 1000)); n != 1000 || err != nil || len(r.String()) != 100 {
		t.Errorf("a long write: %d, %v, %d kept", n, err, len(r.String()))
	}
}

func TestFault(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                       "",
		"llama_load: loading\nroot ::= secret\n": "",
		"x\n  panic: runtime error: index out of range\ngoroutine 1": "panic: runtime error: index out of range",
		"GGML_ASSERT(a) failed\nfatal error: all asleep\n":           "fatal error: all asleep",
		"[signal SIGSEGV: segmentation violation]":                   "[signal SIGSEGV: segmentation violation]",
	} {
		r := lastwords.New(1 << 10)
		fmt.Fprint(r, text)
		if got := r.Fault(); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
