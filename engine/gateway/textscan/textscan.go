// Package textscan turns the bytes of tokens into text that may be shown. It
// imports the standard library alone; engine/gateway imports it.
package textscan

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Scanner turns the bytes of tokens into text that may be shown: whole
// UTF-8 sequences only, cut in front of the first stop string, and never a
// beginning of something that may still become a stop string.
//
// The text of all calls together does not depend on how the bytes were cut
// into pieces. Not safe for concurrent use.
type Scanner struct {
	stops   [][]byte
	pending []byte // not shown yet
	emitted int    // bytes of input that were shown
	stopped bool
}

// New returns a Scanner that ends in front of the first of the stop strings.
func New(stops []string) *Scanner {
	s := &Scanner{}
	for _, stop := range stops {
		s.stops = append(s.stops, []byte(stop))
	}
	return s
}

// Feed takes the next piece and returns the text that can be shown now.
// stopped is true from the call on that completed a stop string.
func (s *Scanner) Feed(piece []byte) (text string, stopped bool) {
	if s.stopped {
		return "", true
	}
	s.pending = append(s.pending, piece...)
	end, start := -1, -1
	for _, stop := range s.stops {
		if i := bytes.Index(s.pending, stop); i >= 0 {
			if e := i + len(stop); end < 0 || e < end || e == end && i < start {
				end, start = e, i
			}
		}
	}
	if end >= 0 {
		s.stopped = true
		return s.take(start), true
	}
	hold := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.pending)); n > hold; n-- {
			if bytes.HasPrefix(stop, s.pending[len(s.pending)-n:]) {
				hold = n
				break
			}
		}
	}
	cut := len(s.pending) - hold
	return s.take(cut - incompleteTail(s.pending[:cut])), false
}

// Finish returns what was held back; an incomplete sequence becomes U+FFFD.
func (s *Scanner) Finish() string {
	if s.stopped {
		return ""
	}
	return s.take(len(s.pending))
}

// Emitted is how many bytes of the input were shown.
func (s *Scanner) Emitted() int { return s.emitted }

func (s *Scanner) take(n int) string {
	text := ValidText(s.pending[:n])
	s.pending = append(s.pending[:0], s.pending[n:]...)
	s.emitted += n
	return text
}

// incompleteTail is the number of bytes at b's end that may still become one
// UTF-8 sequence.
func incompleteTail(b []byte) int {
	for n := 1; n <= min(utf8.UTFMax-1, len(b)); n++ {
		c := b[len(b)-n]
		if utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}

// ValidText replaces each maximal broken sequence by one U+FFFD, the practice
// that the Unicode Standard recommends (section 3.9) and browsers follow.
func ValidText(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var out strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			// FullRune is false just for beginnings of valid sequences.
			for n < min(utf8.UTFMax-1, len(b)) && !utf8.FullRune(b[:n+1]) {
				n++
			}
		}
		out.WriteRune(r)
		b = b[n:]
	}
	return out.String()
}
