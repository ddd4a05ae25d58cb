package words

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// nbsp keeps a number and its unit on one line.
const nbsp = "\u00a0"

// format is how a language writes numbers and dates. All three languages are
// written with a clock of 24 hours.
type format struct {
	decimal, group string
	units          [5]string // of bytes: kilo to peta after the byte itself
	days           [7]string // Sunday first
	months         [12]string
	dayMark        string // after the day of the month
}

var formats = map[string]format{
	"en": {
		decimal: ".", group: ",", units: [5]string{"B", "kB", "MB", "GB", "TB"},
		days:   [7]string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"},
		months: [12]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"},
	},
	"de": {
		decimal: ",", group: ".", units: [5]string{"B", "kB", "MB", "GB", "TB"},
		days:    [7]string{"So.", "Mo.", "Di.", "Mi.", "Do.", "Fr.", "Sa."},
		months:  [12]string{"Jan.", "Feb.", "März", "Apr.", "Mai", "Juni", "Juli", "Aug.", "Sept.", "Okt.", "Nov.", "Dez."},
		dayMark: ".",
	},
	"fr": {
		decimal: ",", group: nbsp, units: [5]string{"o", "ko", "Mo", "Go", "To"},
		days:   [7]string{"dim.", "lun.", "mar.", "mer.", "jeu.", "ven.", "sam."},
		months: [12]string{"janv.", "févr.", "mars", "avr.", "mai", "juin", "juil.", "août", "sept.", "oct.", "nov.", "déc."},
	},
}

// Number is a whole number with groups of three digits: "12,345".
func (w *Words) Number(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	return sign + w.groups(s)
}

func (w *Words) groups(digits string) string {
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteString(w.form.group)
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Decimal is a number with so many digits after the decimal sign: "1,234.5".
// What is not a number is "–".
func (w *Words) Decimal(f float64, digits int) string {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return "–"
	}
	s := strconv.FormatFloat(f, 'f', digits, 64)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	whole, part, ok := strings.Cut(s, ".")
	out := w.groups(whole)
	if ok {
		out += w.form.decimal + part
	}
	if strings.Trim(s, "0.") == "" {
		sign = "" // no "-0.0"
	}
	return sign + out
}

// Percent is a share of a whole, 0 to 1: "42 %", in English "42%".
func (w *Words) Percent(f float64) string {
	if w.tag == "en" {
		return w.Decimal(f*100, 0) + "%"
	}
	return w.Decimal(f*100, 0) + nbsp + "%"
}

// Bytes is a size on disk or of a transfer, in powers of 1000: "8.4 GB".
func (w *Words) Bytes(n int64) string { return w.size(float64(n), 1000) }

// Memory is a size of RAM, in powers of 1024, as shops and systems tell it: 16
// GiB are "16 GB".
func (w *Words) Memory(n int64) string { return w.size(float64(n), 1024) }

// Rate is a speed in bytes per second: "1.2 MB/s".
func (w *Words) Rate(n float64) string { return w.size(n, 1000) + "/s" }

func (w *Words) size(n, step float64) string {
	if math.IsNaN(n) || math.IsInf(n, 0) {
		return "–"
	}
	unit := 0
	for math.Abs(n) >= step && unit < len(w.form.units)-1 {
		n /= step
		unit++
	}
	// What would be written as "1000.0 kB" is the next unit.
	if unit > 0 && math.Abs(n) >= step-0.05 && unit < len(w.form.units)-1 {
		n /= step
		unit++
	}
	digits := 1
	if unit == 0 || math.Abs(n) >= 99.95 || math.Abs(n-math.Round(n)) < 0.05 {
		digits = 0
	}
	return w.Decimal(n, digits) + nbsp + w.form.units[unit]
}

// Credits is an amount of credit without its unit: two digits after the decimal
// sign, more where the amount is smaller than that.
func (w *Words) Credits(micro int64) string {
	f := float64(micro) / 1e6
	digits := 2
	for a := math.Abs(f); digits < 6 && a != 0 && a < math.Pow10(-digits)*10; digits++ {
	}
	return w.Decimal(f, digits)
}

// Duration is a length of time in its two largest units: "1 h 05 min".
func (w *Words) Duration(d time.Duration) string {
	if d < 0 {
		return "-" + w.Duration(-d)
	}
	text := func(id string, n int64) string { return w.T(id, "Count", n) }
	switch {
	case d < time.Second:
		return text("common.milliseconds", d.Milliseconds())
	case d < 10*time.Second && d%time.Second >= 50*time.Millisecond:
		return w.T("common.seconds", "Count", d.Seconds())
	case d < time.Minute:
		return text("common.seconds", int64(d/time.Second))
	case d < time.Hour:
		m, s := int64(d/time.Minute), int64(d%time.Minute/time.Second)
		if m >= 10 || s == 0 {
			return text("common.minutes", m)
		}
		return text("common.minutes", m) + " " + text("common.seconds", s)
	case d < 24*time.Hour:
		h, m := int64(d/time.Hour), int64(d%time.Hour/time.Minute)
		if m == 0 {
			return text("common.hours", h)
		}
		return text("common.hours", h) + " " + text("common.minutes", m)
	}
	days, h := int64(d/(24*time.Hour)), int64(d%(24*time.Hour)/time.Hour)
	if days >= 10 || h == 0 {
		return text("common.days", days)
	}
	return text("common.days", days) + " " + text("common.hours", h)
}

// Clock is the time of the day alone: "15:04".
func (w *Words) Clock(t time.Time) string { return t.In(w.now().Location()).Format("15:04") }

// Time is a point in time: the clock, with the day in front unless it is today.
func (w *Words) Time(t time.Time) string { return w.timeAt(t, w.now()) }

func (w *Words) timeAt(t, now time.Time) string {
	t = t.In(now.Location())
	if dayNumber(t) == dayNumber(now) {
		return t.Format("15:04")
	}
	return w.dayAt(t, now) + ", " + t.Format("15:04")
}

// Day is a day: "today", "yesterday", "tomorrow", or its date, with the year
// when that is another one.
func (w *Words) Day(t time.Time) string { return w.dayAt(t, w.now()) }

func (w *Words) dayAt(t, now time.Time) string {
	t = t.In(now.Location())
	switch dayNumber(t) - dayNumber(now) {
	case 0:
		return w.T("common.today")
	case -1:
		return w.T("common.yesterday")
	case 1:
		return w.T("common.tomorrow")
	}
	s := strconv.Itoa(t.Day()) + w.form.dayMark + nbsp + w.form.months[t.Month()-1]
	if w.tag == "fr" && t.Day() == 1 {
		s = "1er" + nbsp + w.form.months[t.Month()-1]
	}
	if t.Year() != now.Year() {
		return s + nbsp + strconv.Itoa(t.Year())
	}
	comma := " "
	if w.tag == "de" {
		comma = ", "
	}
	return w.form.days[t.Weekday()] + comma + s
}

// dayNumber counts calendar days; a day may have 23 or 25 hours.
func dayNumber(t time.Time) int64 {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / (24 * 60 * 60)
}
