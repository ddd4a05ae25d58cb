package protocol

import (
	"strings"
	"testing"
)

func TestSharingReasonsHaveSentences(t *testing.T) {
	t.Parallel()
	seen := map[string]SharingReason{}
	for _, r := range append(SharingReasons(), "") {
		s, ok := sharingSentences[r]
		if !ok || !strings.HasSuffix(s, ".") {
			t.Errorf("%q has the sentence %q", r, s)
		}
		if other, twice := seen[s]; twice {
			t.Errorf("%q and %q have one sentence", r, other)
		}
		seen[s] = r
	}
	if len(seen) != len(sharingSentences) {
		t.Errorf("%d sentences for %d reasons", len(sharingSentences), len(seen))
	}
	if got := SharingReason("of_later").Sentence(); got != "Paused: of_later." {
		t.Errorf("an unknown reason is told as %q", got)
	}
}
