package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Aligned writes a table in columns, for a font whose characters are all of one
// width.
func (b *Block) Aligned() []string {
	rows := make([][]string, 0, len(b.Lines))
	var widths []int
	for i, line := range b.Lines {
		row := cells(line)
		if i > 0 && len(row) > len(rows[0]) {
			// What is too much for the header stays readable in the last column.
			n := len(rows[0])
			row = append(row[:n-1:n-1], strings.Join(row[n-1:], " | "))
		}
		for k, c := range row {
			row[k] = Plain(c)
			if k == len(widths) {
				widths = append(widths, 0)
			}
			widths[k] = max(widths[k], Width(row[k]))
		}
		rows = append(rows, row)
	}
	out := make([]string, 0, len(rows)+1)
	for i, row := range rows {
		out = append(out, columns(row, widths, " │ ", " "))
		if i == 0 {
			out = append(out, columns(make([]string, len(widths)), widths, "─┼─", "─"))
		}
	}
	return out
}

func columns(row []string, widths []int, between, fill string) string {
	var b strings.Builder
	for k, w := range widths {
		if k > 0 {
			b.WriteString(between)
		}
		cell := ""
		if k < len(row) {
			cell = row[k]
		}
		b.WriteString(cell)
		b.WriteString(strings.Repeat(fill, w-Width(cell)))
	}
	return strings.TrimRight(b.String(), " ")
}

// cells splits a line of a table. A bar behind a backslash, or in code, is text.
func cells(line string) []string {
	line = strings.TrimSpace(line)
	line = strings.TrimPrefix(line, "|")
	var out []string
	from, code := 0, false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\':
			i++
		case line[i] == '`':
			code = !code && strings.Contains(line[i+1:], "`")
		case line[i] == '|' && !code:
			out = append(out, strings.TrimSpace(line[from:i]))
			from = i + 1
		}
	}
	if rest := strings.TrimSpace(line[from:]); rest != "" || len(out) == 0 {
		out = append(out, rest)
	}
	return out
}

// isDashes reports whether text is the line below a table's header.
func isDashes(text string) bool {
	if !strings.Contains(text, "-") {
		return false
	}
	for _, c := range cells(text) {
		c = strings.TrimSuffix(strings.TrimPrefix(c, ":"), ":")
		if c == "" || strings.Trim(c, "-") != "" {
			return false
		}
	}
	return true
}

// Width is the number of columns that s takes: most of Asia's characters, and
// pictures, take two, marks none.
func Width(s string) int {
	n := 0
	for _, r := range s {
		switch {
		case r < utf8.RuneSelf:
			n++
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case r >= 0x1100 && (r <= 0x115f || 0x2e80 <= r && r <= 0xa4cf || 0xac00 <= r && r <= 0xd7a3 ||
			0xf900 <= r && r <= 0xfaff || 0xfe30 <= r && r <= 0xfe6f || 0xff00 <= r && r <= 0xff60 || 0xffe0 <= r && r <= 0xffe6 ||
			0x1f300 <= r && r <= 0x1faff || 0x20000 <= r && r <= 0x3fffd):
			n += 2
		default:
			n++
		}
	}
	return n
}
