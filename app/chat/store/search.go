package store

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"neuron/app/chat/thread"
)

// Hit is a chat in which something was found.
type Hit struct {
	Chat thread.ID
	// Message is the newest one with all words, 0 when only the title has them.
	Message thread.ID
	// Snippet is the text around the first word, on one line.
	Snippet string
}

// Bounds of a search.
const (
	maxQuery   = 200  // characters; the rest is not looked at
	maxWords   = 8    // of a query
	maxMatches = 2000 // messages
)

// Search finds chats where one message, or the title, has all words of the
// query as parts of its words. Letters count alike in both cases; words of three
// characters and more also without their accents. The chat used last comes first.
func (s *Store) Search(ctx context.Context, query string, limit int) ([]Hit, error) {
	words := wordsOf(query)
	if len(words) == 0 {
		return nil, nil
	}
	match, where, args := "", "", []any{}
	for _, w := range words {
		if utf8.RuneCountInString(w) >= 3 {
			match += ` "` + strings.ReplaceAll(w, `"`, `""`) + `"`
		} else {
			where += ` AND m.text LIKE ? ESCAPE '\'`
			args = append(args, "%"+escapeLike(w)+"%")
		}
	}
	from := "message m"
	if match != "" {
		from, where = "found f JOIN message m ON m.id = f.rowid", where+" AND found MATCH ?"
		args = append(args, match)
	}
	rows, err := s.db.QueryContext(ctx, `SELECT c.id, m.id, m.text FROM `+from+` JOIN chat c ON c.id = m.chat
		WHERE c.deleted = 0`+where+` ORDER BY c.updated DESC, c.id, m.created DESC LIMIT ?`, append(args, maxMatches)...)
	if err != nil {
		return nil, s.wrap("search", err)
	}
	defer rows.Close()
	var out []Hit
	seen := map[thread.ID]bool{}
	for rows.Next() && len(out) < limit {
		var h Hit
		var text string
		if err := rows.Scan(&h.Chat, &h.Message, &text); err != nil {
			return nil, s.wrap("search", err)
		}
		if !seen[h.Chat] {
			seen[h.Chat] = true
			h.Snippet = snippet(text, words[0])
			out = append(out, h)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, s.wrap("search", err)
	}
	rows.Close() // the only connection
	return s.searchTitles(ctx, words, seen, out, limit)
}

// searchTitles adds the chats that only their titles make known.
func (s *Store) searchTitles(ctx context.Context, words []string, seen map[thread.ID]bool, out []Hit, limit int) ([]Hit, error) {
	chats, err := s.Chats(ctx)
	if err != nil {
		return nil, err
	}
next:
	for _, c := range chats {
		if len(out) >= limit {
			break
		}
		title := strings.ToLower(c.Title)
		for _, w := range words {
			if seen[c.ID] || !strings.Contains(title, strings.ToLower(w)) {
				continue next
			}
		}
		out = append(out, Hit{Chat: c.ID})
	}
	return out, nil
}

func wordsOf(query string) []string {
	query = strings.ToValidUTF8(strings.ReplaceAll(query, "\x00", ""), "")
	if r := []rune(query); len(r) > maxQuery {
		query = string(r[:maxQuery])
	}
	words := strings.Fields(query)
	return words[:min(len(words), maxWords)]
}

func escapeLike(s string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(s)
}

// Characters of a snippet before the word, and in all.
const (
	snippetBefore = 30
	snippetLength = 120
)

// snippet cuts the neighbourhood of word out of text.
func snippet(text, word string) string {
	// Mapped rune by rune, the lower form has as many runes as the text. A word
	// that only the index knows, since it leaves accents out, is not found here.
	lower := strings.Map(unicode.ToLower, text)
	at := 0
	if i := strings.Index(lower, strings.Map(unicode.ToLower, word)); i > 0 {
		at = utf8.RuneCountInString(lower[:i])
	}
	r := []rune(text)
	from := max(0, at-snippetBefore)
	to := min(len(r), from+snippetLength)
	out := strings.Join(strings.Fields(string(r[from:to])), " ")
	if from > 0 {
		out = "…" + out
	}
	if to < len(r) {
		out += "…"
	}
	return out
}
