package chattmpl

import (
	"fmt"
	"strings"
	"time"
)

// strftime formats t by the directives of Python's time.strftime that chat
// templates use; unknown ones stay as they are. Output is bounded by four
// times the layout, plus names.
func strftime(t time.Time, layout string) string {
	var b strings.Builder
	for i := 0; i < len(layout); i++ {
		if layout[i] != '%' || i+1 == len(layout) {
			b.WriteByte(layout[i])
			continue
		}
		i++
		pad := "%02d"
		if layout[i] == '-' && i+1 < len(layout) { // glibc's "no padding"
			pad = "%d"
			i++
		}
		switch layout[i] {
		case 'Y':
			fmt.Fprintf(&b, "%d", t.Year())
		case 'y':
			fmt.Fprintf(&b, pad, t.Year()%100)
		case 'm':
			fmt.Fprintf(&b, pad, int(t.Month()))
		case 'd':
			fmt.Fprintf(&b, pad, t.Day())
		case 'e':
			fmt.Fprintf(&b, "%2d", t.Day())
		case 'H':
			fmt.Fprintf(&b, pad, t.Hour())
		case 'I':
			fmt.Fprintf(&b, pad, (t.Hour()+11)%12+1)
		case 'M':
			fmt.Fprintf(&b, pad, t.Minute())
		case 'S':
			fmt.Fprintf(&b, pad, t.Second())
		case 'j':
			fmt.Fprintf(&b, "%03d", t.YearDay())
		case 'B':
			b.WriteString(t.Month().String())
		case 'b', 'h':
			b.WriteString(t.Month().String()[:3])
		case 'A':
			b.WriteString(t.Weekday().String())
		case 'a':
			b.WriteString(t.Weekday().String()[:3])
		case 'p':
			b.WriteString(t.Format("PM"))
		case 'Z':
			b.WriteString(t.Format("MST"))
		case 'z':
			b.WriteString(t.Format("-0700"))
		case 'F':
			b.WriteString(t.Format(time.DateOnly))
		case 'T':
			b.WriteString(t.Format(time.TimeOnly))
		case '%':
			b.WriteByte('%')
		default:
			b.WriteByte('%')
			b.WriteByte(layout[i])
		}
	}
	return b.String()
}
