package publish

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestPieceLength(t *testing.T) {
	t.Parallel()
	const kib, mib, tib = 1 << 10, 1 << 20, 1 << 40
	for total, want := range map[int64]int64{
		1: 16 * kib, mib: 16 * kib, 2*mib - 1: 16 * kib, 2 * mib: 32 * kib, 4 * mib: 64 * kib, 255 * mib: 2 * mib, 256 * mib: 4 * mib,
		400 << 30: 4 * mib, 4 * tib: 4 * mib, 4*tib + 1: 8 * mib, 16 * tib: 16 * mib,
	} {
		if got, err := pieceLength(total, 0); err != nil || got != want {
			t.Errorf("%d bytes: pieces of %d, %v, want %d", total, got, err, want)
		}
	}
	if got, err := pieceLength(16*tib+1, 0); err == nil {
		t.Errorf("too large: pieces of %d", got)
	}
	if got, err := pieceLength(16*tib, 16*kib); err == nil {
		t.Errorf("too many pieces of %d", got)
	}
}

func TestClip(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "mit": "mit", "a\nb\tc": "a b c", "\x00\x01": "", "a\xff\xfeb": "a b", "a\u202eb": "a b",
		strings.Repeat("x", 256): strings.Repeat("x", 256), strings.Repeat("x", 257): strings.Repeat("x", 253) + "...",
	} {
		if got := clip(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	if got := clip(strings.Repeat("模", 200)); !utf8.ValidString(got) || len(got) > 256 {
		t.Errorf("%q", got)
	}
}
