package chat

import (
	"strings"
	"testing"
	"time"

	"neuron/app/ui/theme"
	"neuron/engine/gateway/gatewaytest"
)

func TestZZ(t *testing.T) {
	r := open(t, newEngine(t, gatewaytest.Script{Pieces: []string{"x"}}), t.TempDir(), "en", theme.Dark, 1120, 780)
	for _, n := range []int{1000, 4000, 8000, 20000, 50000} {
		for _, line := range []string{"word and more words ", "a line of words that ends\n"} {
			s := time.Now()
			r.composer.entry.SetText(strings.Repeat(line, n/len(line)))
			a := time.Since(s)
			s = time.Now()
			r.typed("x")
			t.Log(n, a, time.Since(s))
		}
	}
}
