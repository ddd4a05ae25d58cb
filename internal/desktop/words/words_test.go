package words

import (
	"math"
	"testing"
	"testing/fstest"
	"time"

	"neuron/engine/protocol"
)

// at is a fixed clock: Monday, 30 November 2026, 14:05 in a zone of its own.
var at = time.Date(2026, 11, 30, 14, 5, 0, 0, time.FixedZone("here", 3600))

func speak(tag string) *Words { return New(tag).WithClock(func() time.Time { return at }) }

func TestLanguageIsChosen(t *testing.T) {
	t.Parallel()
	for wish, want := range map[string]string{
		"en": "en", "de": "de", "fr": "fr", "de-AT": "de", "fr_CA.UTF-8": "fr", "de_DE@euro": "de", "en-GB": "en",
		"C": "en", "C.UTF-8": "en", "POSIX": "en", "ja": "en", "not a language": "en", "gsw": "en",
	} {
		if got := New(wish).Language(); got != want {
			t.Errorf("%q: %s, want %s", wish, got, want)
		}
	}
	for _, l := range Languages() {
		if New(l.Tag).Language() != l.Tag || l.Name == "" {
			t.Errorf("%+v cannot be chosen", l)
		}
	}
}

func TestTextsAreFilledIn(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"x.en.json": {Data: []byte(`{"x.nodes": {"one": "{{.Count}} node in {{.Place}}", "other": "{{.Count}} nodes in {{.Place}}"}, "x.only": "only English"}`)},
		"x.de.json": {Data: []byte(`{"x.nodes": {"one": "{{.Count}} Knoten", "other": "{{.Count}} Knoten!"}}`)},
		"y.de.json": {Data: []byte(`{broken`)},
		"x.fr.json": {Data: []byte(`{"x.nodes": {"one": "{{.Count}} nœud", "other": "{{.Count}} nœuds"}}`)},
	}
	en, de, fr := newWords("en", files), newWords("de", files), newWords("fr", files)
	for _, c := range []struct{ got, want string }{
		{en.T("x.nodes", "Count", 1, "Place", "Rome"), "1 node in Rome"},
		{en.T("x.nodes", "Count", int64(12345), "Place", "Rome"), "12,345 nodes in Rome"},
		{en.T("x.nodes", "Count", 0, "Place", "Rome"), "0 nodes in Rome"},
		{en.T("x.nodes", "Count", 1.5, "Place", "Rome"), "1.5 nodes in Rome"},
		{de.T("x.nodes", "Count", 1), "1 Knoten"},
		{de.T("x.nodes", "Count", 12345), "12.345 Knoten!"},
		{fr.T("x.nodes", "Count", 0), "0 nœud"},
		{fr.T("x.nodes", "Count", 2), "2 nœuds"},
		{fr.T("x.nodes", "Count", 1000000), "1" + nbsp + "000" + nbsp + "000 nœuds"}, // has no "many": other serves
		{de.T("x.only"), "only English"},
		{de.T("x.nothing"), "x.nothing"},
		{en.T("x.only", "Count"), "only English"},
		{en.T("x.only", 7, 8), "only English"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	en, de, fr := speak("en"), speak("de"), speak("fr")
	for _, c := range []struct{ got, want string }{
		{en.Number(0), "0"}, {en.Number(999), "999"}, {en.Number(1000), "1,000"}, {en.Number(-1234567), "-1,234,567"},
		{en.Number(math.MinInt64), "-9,223,372,036,854,775,808"},
		{de.Number(1234567), "1.234.567"}, {fr.Number(1234567), "1" + nbsp + "234" + nbsp + "567"},
		{en.Decimal(1234.56, 1), "1,234.6"}, {de.Decimal(1234.56, 1), "1.234,6"}, {en.Decimal(-0.01, 1), "0.0"}, {en.Decimal(math.NaN(), 1), "–"},
		{en.Decimal(math.Inf(1), 1), "–"}, {en.Percent(0.425), "42%"}, {de.Percent(0.42), "42" + nbsp + "%"},
		{en.Bytes(0), "0" + nbsp + "B"}, {en.Bytes(999), "999" + nbsp + "B"}, {en.Bytes(1000), "1" + nbsp + "kB"}, {en.Bytes(1500), "1.5" + nbsp + "kB"},
		{en.Bytes(8_400_000_000), "8.4" + nbsp + "GB"}, {de.Bytes(8_400_000_000), "8,4" + nbsp + "GB"}, {fr.Bytes(8_400_000_000), "8,4" + nbsp + "Go"},
		{en.Bytes(999_990), "1" + nbsp + "MB"}, {en.Bytes(123_456_789), "123" + nbsp + "MB"}, {en.Bytes(5e15), "5,000" + nbsp + "TB"}, {en.Bytes(-1500), "-1.5" + nbsp + "kB"},
		{en.Memory(16 << 30), "16" + nbsp + "GB"}, {en.Memory(1 << 29), "512" + nbsp + "MB"},
		{en.Rate(1_250_000), "1.2" + nbsp + "MB/s"}, {fr.Rate(0), "0" + nbsp + "o/s"}, {en.Rate(math.NaN()), "–/s"},
		{en.Credits(12_340_000), "12.34"}, {de.Credits(1_234_560_000), "1.234,56"}, {en.Credits(0), "0.00"},
		{en.Credits(1_234), "0.0012"}, {en.Credits(1), "0.000001"}, {en.Credits(-50_000), "-0.050"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	en, de, fr := speak("en"), speak("de"), speak("fr")
	day := 24 * time.Hour
	for _, c := range []struct{ got, want string }{
		{en.Time(at.Add(90 * time.Minute)), "15:35"},
		{en.Time(at.UTC()), "14:05"}, // in the clock's zone
		{en.Time(at.Add(10 * time.Hour)), "tomorrow, 00:05"},
		{de.Time(at.Add(10 * time.Hour)), "morgen, 00:05"},
		{fr.Time(at.Add(-15 * time.Hour)), "hier, 23:05"},
		{en.Clock(at.Add(10 * time.Hour)), "00:05"},
		{en.Day(at), "today"}, {en.Day(at.Add(-day)), "yesterday"}, {en.Day(at.Add(day)), "tomorrow"},
		{en.Day(at.Add(-2 * day)), "Sat 28" + nbsp + "Nov"}, {de.Day(at.Add(-2 * day)), "Sa., 28." + nbsp + "Nov."}, {fr.Day(at.Add(-2 * day)), "sam. 28" + nbsp + "nov."},
		{fr.Day(at.Add(-29 * day)), "dim. 1er" + nbsp + "nov."},
		{de.Day(at.AddDate(-1, 0, 0)), "30." + nbsp + "Nov." + nbsp + "2025"},
		{en.Duration(0), "0" + nbsp + "ms"}, {en.Duration(350 * time.Millisecond), "350" + nbsp + "ms"}, {de.Duration(2500 * time.Millisecond), "2,5" + nbsp + "s"},
		{en.Duration(45 * time.Second), "45" + nbsp + "s"}, {en.Duration(90 * time.Second), "1" + nbsp + "min 30" + nbsp + "s"}, {en.Duration(65 * time.Minute), "1" + nbsp + "h 5" + nbsp + "min"},
		{en.Duration(3 * time.Hour), "3" + nbsp + "h"}, {de.Duration(25 * time.Hour), "1" + nbsp + "Tag 1" + nbsp + "Std."}, {fr.Duration(48 * time.Hour), "2" + nbsp + "jours"},
		{en.Duration(-time.Minute), "-1" + nbsp + "min"},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

// In a night with 23 or 25 hours the next day is still tomorrow.
func TestTomorrowOverChangeOfClocks(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skipf("SKIPPED: no time zones here: %v", err)
	}
	now := time.Date(2026, 10, 24, 23, 30, 0, 0, zone)
	w := New("en").WithClock(func() time.Time { return now })
	if got := w.Time(time.Date(2026, 10, 25, 23, 45, 0, 0, zone)); got != "tomorrow, 23:45" {
		t.Error(got)
	}
}

func TestReasonsHaveSentences(t *testing.T) {
	t.Parallel()
	for _, l := range Languages() {
		w := speak(l.Tag)
		seen := map[string]protocol.SharingReason{}
		for _, r := range append(protocol.SharingReasons(), "") {
			s := w.Reason(r, nil, at)
			if s == "" || seen[s] != "" {
				t.Errorf("%s: %q says %q, as does %q", l.Tag, r, s, seen[s])
			}
			seen[s] = r
			if l.Tag == "en" && plainQuotes(s) != r.Sentence() {
				t.Errorf("%q: tray says %q, the engine %q", r, s, r.Sentence())
			}
			if l.Tag != "en" && r != "" && s == r.Sentence() {
				t.Errorf("%s: %q is not translated", l.Tag, r)
			}
		}
	}
	end := at.Add(90 * time.Minute)
	for _, c := range []struct{ got, want string }{
		{speak("en").Reason(protocol.SharingUserPause, &end, at), "Paused by you until 15:35."},
		{speak("de").Reason(protocol.SharingSchedule, &end, at), "Angehalten: außerhalb der Zeiten, die Sie gewählt haben. Bis 15:35."},
		{speak("en").Reason(protocol.SharingUserPause, &time.Time{}, at), "Paused by you."},
		{speak("de").Reason("of_tomorrow", nil, at), "Paused: of_tomorrow."},
	} {
		if c.got != c.want {
			t.Errorf("%q, want %q", c.got, c.want)
		}
	}
}

func plainQuotes(s string) string {
	out := []rune(s)
	for i, r := range out {
		if r == '’' {
			out[i] = '\''
		}
	}
	return string(out)
}

// What codes.go has a remedy for in English has one in every language.
func TestCodesHaveRemedies(t *testing.T) {
	t.Parallel()
	for _, l := range Languages() {
		w := speak(l.Tag)
		for _, c := range protocol.Codes() {
			if c.Remedy() == "" {
				continue
			}
			text, remedy := w.Code(c, "the message")
			if text == "the message" {
				t.Errorf("%s: %s has no text", l.Tag, c)
			}
			if remedy == c.Remedy() {
				t.Errorf("%s: the remedy of %s is not for people: %q", l.Tag, c, remedy)
			}
		}
		if text, remedy := w.Code("of_tomorrow", "the message"); text != "the message" || remedy != "" {
			t.Errorf("%q, %q", text, remedy)
		}
		if text, _ := w.Code("", ""); text == "" {
			t.Error("an error without a text")
		}
	}
}
