// Package draft guesses the next tokens of an answer, so that a route checks
// several in one pass: it looks the end of the text up in what came before
// (prompt lookup), and decides from measured times whether a guess is worth
// its rows.
//
// It is pure: no time, no I/O, no randomness. engine/session imports it and
// keeps one of each per session; nothing here is safe for concurrent use.
package draft

// grams are the lengths that are looked up, the longest first. A longer match
// is better evidence that the text repeats itself.
var grams = [...]int{4, 3, 2}

// Classes is the number of strengths that a match can have, from 0, the weakest
// (two tokens).
const Classes = len(grams)

// Lookup is the text of a session, prompt and answer, with an index of where
// each run of a few tokens was last seen.
type Lookup struct {
	ids []int32
	// seen has, per length, where the newest occurrence of a run ends: the index
	// of the token behind it. The run at the very end is not in it yet.
	seen [Classes]map[uint64]int32
}

// NewLookup makes an empty text.
func NewLookup() *Lookup {
	l := new(Lookup)
	for i := range l.seen {
		l.seen[i] = make(map[uint64]int32)
	}
	return l
}

// Append adds tokens to the end of the text.
func (l *Lookup) Append(ids ...int32) {
	for _, id := range ids {
		// What ended the text until now has a token behind it from here on.
		for i, n := range grams {
			if len(l.ids) >= n {
				l.seen[i][hash(l.ids[len(l.ids)-n:])] = int32(len(l.ids))
			}
		}
		l.ids = append(l.ids, id)
	}
}

// Len is the number of tokens.
func (l *Lookup) Len() int { return len(l.ids) }

// Propose returns at most n tokens that followed the newest earlier occurrence
// of the text's end, and how strong the match is: 0 to Classes-1. Without a
// match it returns none. The slice is the text's own: it is not to be changed.
func (l *Lookup) Propose(n int) (ids []int32, class int) {
	for i, g := range grams {
		if len(l.ids) <= g {
			continue
		}
		end := l.ids[len(l.ids)-g:]
		at, ok := l.seen[i][hash(end)]
		if !ok || !equal(l.ids[int(at)-g:at], end) {
			continue
		}
		return l.ids[at:min(int(at)+n, len(l.ids))], Classes - 1 - i
	}
	return nil, 0
}

func equal(a, b []int32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// hash is FNV-1a over whole tokens; what it mixes up Propose compares.
func hash(ids []int32) uint64 {
	h := uint64(14695981039346656037)
	for _, id := range ids {
		h = (h ^ uint64(uint32(id))) * 1099511628211
	}
	return h
}
