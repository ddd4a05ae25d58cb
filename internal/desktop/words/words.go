// Package words is what window and tray say to people, in their language:
// texts by id, numbers, sizes, times, and the sentences for reasons and errors.
//
// Texts come from assets/translations. Window, tray and the packages under
// internal/desktop import it; it knows no engine, no toolkit and no settings.
// A *Words does not change and is safe for concurrent use; another language is
// another *Words.
package words

import (
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/nicksnyder/go-i18n/v2/i18n"
	"golang.org/x/text/language"

	"neuron/assets/translations"
	"neuron/engine/protocol"
)

// Language is one that can be chosen.
type Language struct {
	Tag  string // "de"
	Name string // in the language itself: "Deutsch"
}

// Languages lists all of them, English first.
func Languages() []Language {
	return []Language{{"en", "English"}, {"de", "Deutsch"}, {"fr", "Français"}}
}

// Words speak one language.
type Words struct {
	tag   string
	texts *i18n.Localizer
	form  format
	now   func() time.Time
}

// New gives the words of a language; "" and "system" mean the system's.
// A language that is not there is answered in English, and so is a message
// that a language lacks.
func New(tag string) *Words { return newWords(tag, translations.Files) }

func newWords(tag string, files fs.FS) *Words {
	if tag == "" || tag == "system" {
		tag = systemLanguage()
	}
	tag = choose(tag)
	b := i18n.NewBundle(language.English)
	load(b, files, "en")
	if tag != "en" {
		load(b, files, tag)
	}
	return &Words{tag: tag, texts: i18n.NewLocalizer(b, tag), form: formats[tag], now: time.Now}
}

// WithClock is w with another clock, which decides what "today" is and in which
// time zone times are told.
func (w *Words) WithClock(now func() time.Time) *Words {
	c := *w
	c.now = now
	return &c
}

// Language is the tag of the language that is spoken: "en", "de" or "fr".
func (w *Words) Language() string { return w.tag }

// choose finds the best of our languages for a wish like "de-AT" or "fr_CA.UTF-8".
func choose(wish string) string {
	wish, _, _ = strings.Cut(wish, ".")
	wish, _, _ = strings.Cut(wish, "@")
	tag, err := language.Parse(wish)
	if err != nil {
		return "en"
	}
	base, _ := tag.Base()
	for _, l := range Languages() {
		if l.Tag == base.String() {
			return l.Tag
		}
	}
	return "en"
}

// load reads the files of a language. They are embedded, and a test reads each
// of them; one that is broken all the same costs its own texts alone.
func load(b *i18n.Bundle, files fs.FS, tag string) {
	names, err := fs.Glob(files, "*."+tag+".json")
	if err != nil {
		return // the pattern is constant
	}
	for _, name := range names {
		_, _ = b.LoadMessageFileFS(files, name)
	}
}

// T is the text of id with its placeholders filled in from pairs of name and
// value. The pair "Count" chooses the plural form and is written as a number
// (int, int64 or float64). An id without a text is returned as it is.
func (w *Words) T(id string, pairs ...any) string {
	c := &i18n.LocalizeConfig{MessageID: id}
	if len(pairs) > 0 {
		data := make(map[string]any, len(pairs)/2)
		for i := 0; i+1 < len(pairs); i += 2 {
			name, ok := pairs[i].(string)
			if !ok {
				continue
			}
			data[name] = pairs[i+1]
			if name == "Count" {
				c.PluralCount, data[name] = w.count(pairs[i+1])
			}
		}
		c.TemplateData = data
	}
	// A text in another language or plural form comes with an error and is
	// better than none.
	s, _ := w.texts.Localize(c)
	if s == "" {
		return id
	}
	return s
}

// count is what chooses the plural form, and what is shown.
func (w *Words) count(v any) (form, shown any) {
	switch n := v.(type) {
	case int:
		return n, w.Number(int64(n))
	case int64:
		return n, w.Number(n)
	case float64:
		s := fmt.Sprintf("%.1f", n)
		return s, w.Decimal(n, 1)
	}
	return nil, v
}

// has reports whether the language, or English, has a text.
func (w *Words) has(id string) bool {
	s, _ := w.texts.Localize(&i18n.LocalizeConfig{MessageID: id})
	return s != ""
}

// Reason is the one sentence about sharing: why it is off, or that it is on
// (""), with the end where there is one. A reason of a newer engine is told as
// the engine's vocabulary tells it.
func (w *Words) Reason(r protocol.SharingReason, until *time.Time, now time.Time) string {
	if r == "" {
		return w.T("common.reason_sharing")
	}
	id := "common.reason_" + string(r)
	if !w.has(id) {
		return r.Sentence()
	}
	if until == nil || until.IsZero() {
		return w.T(id)
	}
	end := w.timeAt(*until, now)
	if r == protocol.SharingUserPause {
		return w.T("common.reason_user_pause_until", "Time", end)
	}
	return w.T(id) + " " + w.T("common.reason_until", "Time", end)
}

// Code is an error for people: what happened, and what can be done ("" when
// nothing is known). Codes that say too little by themselves are told by their
// message, which is English.
func (w *Words) Code(c protocol.Code, message string) (text, remedy string) {
	text = message
	if id := "common.code_" + string(c); w.has(id) {
		text = w.T(id)
	}
	if id := "common.remedy_" + string(c); w.has(id) {
		remedy = w.T(id)
	} else {
		remedy = c.Remedy()
	}
	if text == "" {
		text = w.T("common.code_internal")
	}
	return text, remedy
}
