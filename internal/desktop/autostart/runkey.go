package autostart

import "strings"

// approved reads the binary value that the Task Manager keeps for an entry: its
// first byte is odd when the user has switched it off. No value is a yes.
func approved(value []byte) bool { return len(value) == 0 || value[0]&1 == 0 }

// joinWindows writes a command line as Windows programs take it apart.
func joinWindows(cmd []string) string {
	out := make([]string, len(cmd))
	for i, s := range cmd {
		var b strings.Builder
		b.WriteByte('"')
		slashes := 0
		for _, c := range []byte(s) {
			switch c {
			case '\\':
				slashes++
			case '"':
				b.WriteString(strings.Repeat(`\`, slashes+1)) // those before it twice, and one for it
				slashes = 0
			default:
				slashes = 0
			}
			b.WriteByte(c)
		}
		b.WriteString(strings.Repeat(`\`, slashes)) // twice before the closing quote
		b.WriteByte('"')
		out[i] = b.String()
	}
	return strings.Join(out, " ")
}
