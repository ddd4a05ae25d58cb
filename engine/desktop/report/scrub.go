// Package report makes a text about a running engine for those who help its
// user: versions, system, health, settings, figures and the last lines of the
// log. It holds no prompts, no keys, and no names of the user or of files that
// are his.
//
// engine/desktop gives it what it is to say; it asks nobody.
package report

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Scrubber takes what is the user's own out of texts.
type Scrubber struct {
	known    *strings.Replacer
	patterns []pattern
}

type pattern struct {
	find *regexp.Regexp
	with string
}

// patterns find what is secret or the user's by its form, for what nobody has
// named. The order counts.
var patterns = []pattern{
	// PEM blocks, also with their line ends quoted.
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]+-----.*?(-----END [A-Z ]+-----|$)`), "<key>"},
	{regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9+/=._~-]+`), "$1 <key>"},
	{regexp.MustCompile(`\bnk-[A-Za-z0-9_-]+`), "<key>"},
	// Names and passwords in addresses.
	{regexp.MustCompile(`([a-z][a-z0-9+.-]*://)[^\s/@"']*@`), "$1<user>@"},
	{regexp.MustCompile(`(?i)\b(token|secret|password|passphrase|api[_-]?key|key)=("[^"]*"|\S+)`), "$1=<key>"},
	// Paths of files: quoted ones may hold spaces. The addresses of pages do not
	// begin with one slash.
	{regexp.MustCompile(`"(?:/|~/|[A-Za-z]:\\|\\\\)[^"]*"`), `"<path>"`},
	{regexp.MustCompile(`(<home>|<data>)[/\\][^\s"'),;:]*`), "$1/<path>"},
	{regexp.MustCompile(`(^|[\s=(,:'\[])(?:~?/[^\s"'),;:/][^\s"'),;:]*|(?:[A-Za-z]:\\|\\\\)[^\s"'),;]+)`), "$1<path>"},
	// Names of models that lie on this computer, where a space or a relative path
	// let them escape.
	{regexp.MustCompile(`[^\s"'/\\=<>]+\.gguf\b`), "<file>"},
	{regexp.MustCompile(`\b[0-9a-fA-F]{48,}\b`), "<hex>"},
}

// New makes a scrubber that also knows texts that are the user's: each is
// replaced by its name. Texts of fewer than three bytes are too common.
func New(known map[string]string) *Scrubber {
	type pair struct{ text, name string }
	var all []pair
	for text, name := range known {
		for _, form := range []string{text, filepath.ToSlash(text), strings.ReplaceAll(text, `\`, `\\`)} {
			if len(form) >= 3 {
				all = append(all, pair{form, name})
			}
		}
	}
	// The longest first, so that a folder does not hide what lies in it.
	slices.SortFunc(all, func(a, b pair) int {
		if d := len(b.text) - len(a.text); d != 0 {
			return d
		}
		return strings.Compare(a.text, b.text)
	})
	var args []string
	for _, p := range all {
		args = append(args, p.text, p.name)
	}
	return &Scrubber{known: strings.NewReplacer(args...), patterns: patterns}
}

// Text is s without what is the user's.
func (x *Scrubber) Text(s string) string {
	s = x.known.Replace(s)
	for _, p := range x.patterns {
		s = p.find.ReplaceAllString(s, p.with)
	}
	return s
}
