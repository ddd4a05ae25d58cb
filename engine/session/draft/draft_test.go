package draft

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestPropose(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		text  []int32
		n     int
		want  []int32
		class int
	}{
		{name: "empty", n: 3},
		{name: "too short", text: []int32{1, 1}, n: 3},
		{name: "nothing repeats", text: []int32{1, 2, 3, 4, 5}, n: 3},
		{name: "two tokens", text: []int32{1, 2, 7, 8, 9, 1, 2}, n: 3, want: []int32{7, 8, 9}},
		{name: "three tokens", text: []int32{0, 1, 2, 7, 8, 0, 1, 2}, n: 2, want: []int32{7, 8}, class: 1},
		{name: "four tokens", text: []int32{5, 0, 1, 2, 7, 5, 0, 1, 2}, n: 2, want: []int32{7, 5}, class: 2},
		{name: "the newest counts", text: []int32{1, 2, 7, 1, 2, 8, 1, 2}, n: 1, want: []int32{8}},
		{name: "longer before newer", text: []int32{9, 1, 2, 7, 1, 2, 8, 9, 1, 2}, n: 1, want: []int32{7}, class: 1},
		{name: "up to the end", text: []int32{1, 1, 1, 1}, n: 7, want: []int32{1}, class: 1},
	} {
		l := NewLookup()
		l.Append(c.text...)
		if got, class := l.Propose(c.n); !slices.Equal(got, c.want) || len(got) > 0 && class != c.class {
			t.Errorf("%s: %v of strength %d, want %v of %d", c.name, got, class, c.want, c.class)
		}
	}
}

// FuzzLookup: what is proposed stands in the text behind an earlier occurrence
// of its end.
func FuzzLookup(f *testing.F) {
	f.Add([]byte{1, 2, 3, 1, 2, 3, 1, 2}, uint8(3))
	f.Fuzz(func(t *testing.T, text []byte, n uint8) {
		l := NewLookup()
		for _, b := range text {
			l.Append(int32(b % 4))
		}
		ids, class := l.Propose(int(n))
		if len(ids) > int(n) || class < 0 || class >= Classes {
			t.Fatalf("%d tokens of strength %d", len(ids), class)
		}
		if len(ids) == 0 {
			return
		}
		end := l.ids[len(l.ids)-grams[Classes-1-class]:]
		for at := len(end); at < len(l.ids); at++ {
			if slices.Equal(l.ids[at-len(end):at], end) && slices.Equal(l.ids[at:at+len(ids)], ids) {
				return
			}
		}
		t.Fatalf("%v does not follow %v in the text", ids, end)
	})
}

// law is what a pass takes by its number of rows, as measured on the 1B model
// (docs/decisions on scheduling), and one round trip.
func law(threads, rows int, rtt time.Duration) time.Duration {
	speed := map[int][3]float64{1: {1, 1.33, 1.40}, 2: {1, 1.58, 1.75}}[threads]
	per := 20 * time.Millisecond
	f := 1.0
	switch {
	case rows > 4:
		f = 8 / speed[2]
	case rows > 1:
		f = 4 / speed[1]
	}
	return time.Duration(f*float64(per)) + rtt
}

// answer runs a session over a text that is known beforehand, and returns its
// speed over one token per pass.
func answer(text []int32, prompt, threads int, rtt time.Duration) (speed float64, passes int) {
	l, w := NewLookup(), new(Window)
	l.Append(text[:prompt]...)
	var plain, took time.Duration
	for at := prompt; at < len(text); {
		plainTokens := 1
		ids, class := l.Propose(Most)
		n := w.Next(class, len(ids))
		t := law(threads, n+1, rtt)
		if n == 0 {
			w.Stepped(t)
		} else {
			right := 0
			for right < n && at+right < len(text) && ids[right] == text[at+right] {
				right++
			}
			w.Checked(class, n, right, t)
			plainTokens = min(right+1, len(text)-at)
		}
		took += t
		plain += time.Duration(plainTokens) * law(threads, 1, rtt)
		l.Append(text[at : at+plainTokens]...)
		at += plainTokens
		passes++
	}
	return float64(plain) / float64(took), passes
}

// TestPays: repetitive text is twice as fast with 20 ms between hops, and text
// without repetition is never slower than 0.97.
func TestPays(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	random := func(n, vocab int) []int32 {
		out := make([]int32, n)
		for i := range out {
			out[i] = int32(r.IntN(vocab))
		}
		return out
	}
	block := random(40, 1000)
	var code []int32 // blocks with one change each, as edited code has
	for range 20 {
		b := slices.Clone(block)
		b[r.IntN(len(b))] = int32(r.IntN(1000))
		code = append(code, b...)
	}
	for _, threads := range []int{1, 2} {
		for _, rtt := range []time.Duration{0, 40 * time.Millisecond, 80 * time.Millisecond} {
			for _, c := range []struct {
				name  string
				text  []int32
				least float64
			}{
				{"one block again and again", slices.Concat(block, block, block, block, block, block, block, block), map[bool]float64{true: 1.15, false: 2}[rtt == 0]},
				{"blocks with changes", code, map[bool]float64{true: 0.97, false: 2}[rtt == 0]},
				{"novel", random(600, 30_000), 0.97},
				{"many chance matches", random(600, 12), 0.97},
				{"matches that mislead", mislead(r, 600), 0.97},
				{"a short answer that misleads", mislead(r, 140), 0.97},
				{"a short answer with chance matches", random(140, 12), 0.97},
			} {
				speed, passes := answer(c.text, 40, threads, rtt)
				t.Logf("%d threads, %s: %s: %.2f times as fast, %d passes for %d tokens", threads, rtt, c.name, speed, passes, len(c.text)-40)
				if speed < c.least {
					t.Errorf("%d threads, %s: %s: %.2f times as fast, want %.2f", threads, rtt, c.name, speed, c.least)
				}
			}
		}
	}
}

// mislead makes a text in which each match is followed by something else.
func mislead(r *rand.Rand, n int) []int32 {
	var out []int32
	for next := int32(1000); len(out) < n; next++ {
		out = append(out, 1, 2, 3, 4, next, int32(r.IntN(1000)))
	}
	return out
}
