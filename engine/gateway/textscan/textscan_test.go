package textscan

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func scanAll(stops []string, pieces ...string) (deltas []string, stopped bool) {
	s := New(stops)
	for _, p := range pieces {
		d, stop := s.Feed([]byte(p))
		deltas = append(deltas, d)
		if stopped = stop; stop {
			break
		}
	}
	return append(deltas, s.Finish()), stopped
}

func TestScanner(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		stops   []string
		pieces  []string
		want    string // deltas joined by |
		stopped bool
	}{
		"plain":            {nil, []string{"a", "b"}, "a|b|", false},
		"split rune":       {nil, []string{"x\xe2", "\x82", "\xacy"}, "x||€y|", false},
		"cut rune":         {nil, []string{"x\xe2\x82"}, "x|\uFFFD", false},
		"broken rune":      {nil, []string{"\xe2\x82", "a"}, "|\uFFFDa|", false},
		"lone byte":        {nil, []string{"\xff\xfe"}, "\uFFFD\uFFFD|", false},
		"stop over border": {[]string{"STOP"}, []string{"aS", "TO", "Pb"}, "a|||", true},
		"not a stop":       {[]string{"STOP"}, []string{"aST", "x"}, "a|STx|", false},
		"held at the end":  {[]string{"STOP"}, []string{"aSTO"}, "a|STO", false},
		"first complete":   {[]string{"abcd", "bc"}, []string{"abcd"}, "a|", true},
		"longest of two":   {[]string{"bc", "abc"}, []string{"xabc"}, "x|", true},
		"overlap":          {[]string{"aab"}, []string{"a", "a", "a", "b"}, "||a||", true},
		"stop in rune":     {[]string{"€"}, []string{"x\xe2", "\x82\xac"}, "x||", true},
	} {
		deltas, stopped := scanAll(tc.stops, tc.pieces...)
		if got := strings.Join(deltas, "|"); got != tc.want || stopped != tc.stopped {
			t.Errorf("%s: %q, %v, expected %q", name, got, stopped, tc.want)
		}
		for _, d := range deltas {
			if !utf8.ValidString(d) {
				t.Errorf("%s: delta %q is not valid", name, d)
			}
		}
	}
}

// firstStop is the definition: of all occurrences the one that is complete
// first, of those the longest.
func firstStop(whole string, stops []string) (cut int, found bool) {
	end := -1
	for _, s := range stops {
		if i := strings.Index(whole, s); i >= 0 {
			if e := i + len(s); end < 0 || e < end || e == end && i < cut {
				end, cut = e, i
			}
		}
	}
	if end < 0 {
		return len(whole), false
	}
	return cut, true
}

func FuzzScanner(f *testing.F) {
	f.Add("hello wor\xe2\x82\xacld", "wor", "l", uint8(1))
	f.Add("aaab", "aab", "b", uint8(2))
	f.Add("\xf0\x9f\x98\x80\xff\xe2\x82", "\x80", "", uint8(1))
	f.Fuzz(func(t *testing.T, whole, stop1, stop2 string, step uint8) {
		var stops []string
		for _, s := range []string{stop1, stop2} {
			if s != "" && utf8.ValidString(s) { // stops come from JSON
				stops = append(stops, s)
			}
		}
		var pieces []string
		for i, n := 0, int(step)%5+1; i < len(whole); i += n {
			pieces = append(pieces, whole[i:min(i+n, len(whole))])
		}
		deltas, stopped := scanAll(stops, pieces...)
		cut, found := firstStop(whole, stops)
		want := ValidText([]byte(whole[:cut]))
		if got := strings.Join(deltas, ""); got != want || stopped != found {
			t.Errorf("text %q, stopped %v; expected %q, %v", got, stopped, want, found)
		}
		for _, d := range deltas {
			if !utf8.ValidString(d) {
				t.Errorf("delta %q is not valid", d)
			}
		}
	})
}
