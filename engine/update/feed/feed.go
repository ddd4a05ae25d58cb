// Package feed is the signed list of a release's packages that programs read to
// learn of a newer version: its content, its one form, its signatures, and which
// package a computer takes.
//
// engine/update reads feeds, internal/cmd/releasefeed makes them. The package is
// pure: bytes, keys and a time go in. Of our packages it imports engine/protocol
// alone. The format is described in docs/protocol/updates.md.
package feed

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"neuron/engine/protocol"
)

// Form is the version of the feed's form that this build writes. It reads forms
// up to this one and skips fields that it does not know: an old program has to
// be able to read the feed of a newer one.
const Form = 1

// Limits of feeds.
const (
	// MaxBytes bounds the signed form.
	MaxBytes = 256 << 10
	// MaxPackage bounds a package, in bytes.
	MaxPackage = 16 << 30
	// MaxValid is how long a feed may be valid.
	MaxValid = 400 * 24 * time.Hour

	maxPackages = 200
	maxNotes    = 16 << 10 // of one language
	maxLanguage = 20       // languages, and bytes of a tag
	maxText     = 2048     // of an address
	maxName     = 200
)

// Feed is what one release is and how it is got.
type Feed struct {
	Form int `json:"form"`
	// Channel is "stable", or another one for those who try releases.
	Channel string `json:"channel"`
	// Serial grows with every feed of a channel that is signed, whatever has
	// changed: a lower one is an old feed that somebody plays again.
	Serial int64 `json:"serial"`
	// Issued and Expires are in UTC. After Expires the feed is refused, so that
	// nobody can hide newer releases for long by serving an old feed.
	Issued  time.Time `json:"issued"`
	Expires time.Time `json:"expires"`
	// Version is MAJOR.MINOR.PATCH[-PRE], Date its day (2006-01-02).
	Version string `json:"version"`
	Date    string `json:"date"`
	// Page is an https address for people, "" for none.
	Page string `json:"page"`
	// Notes say what is new, as plain text by language ("en", "de").
	Notes    map[string]string `json:"notes"`
	Packages []Package         `json:"packages"`
}

// Kind is a kind of package.
type Kind string

// The kinds.
const (
	KindDeb   Kind = "deb"
	KindRPM   Kind = "rpm"
	KindRun   Kind = "run"   // self-extracting, for one user (Linux)
	KindTar   Kind = "tar"   // tar.xz or tar.gz
	KindSetup Kind = "setup" // NSIS, for one user (Windows)
	KindDMG   Kind = "dmg"   // disk image (macOS)
)

// systems are those on which a kind can be installed.
var systems = map[Kind][]string{
	KindDeb: {"linux"}, KindRPM: {"linux"}, KindRun: {"linux"}, KindTar: {"linux", "darwin", "windows"}, KindSetup: {"windows"}, KindDMG: {"darwin"},
}

// Package is one file that can be fetched.
type Package struct {
	OS   string `json:"os"`   // as Go names it: linux, windows, darwin
	Arch string `json:"arch"` // amd64, arm64
	Kind Kind   `json:"kind"`
	// URL is an https address, or one relative to the feed's.
	URL string `json:"url"`
	// Name is the file's, without a folder.
	Name   string `json:"name"`
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // lower-case hex
}

var (
	channelForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)
	wordForm    = regexp.MustCompile(`^[a-z0-9]{1,20}$`)
	nameForm    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+~-]{0,199}$`)
	sumForm     = regexp.MustCompile(`^[0-9a-f]{64}$`)
	tagForm     = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{1,8})*$`)
)

func bad(format string, args ...any) *protocol.Error {
	return protocol.Errorf(protocol.CodeUpdateInvalid, "the list of releases is refused: "+format, args...)
}

// Check says whether the feed is one that can be used at all; when and where is
// Accept's to say. Error: update_invalid, unsupported for a form of a newer
// version.
func (f *Feed) Check() error {
	switch {
	case f.Form > Form:
		return protocol.Errorf(protocol.CodeUnsupported, "the list of releases is of form %d, and this version of Neuron reads form %d: get the newest version from its publisher", f.Form, Form)
	case f.Form < 1:
		return bad("it has no form")
	case !channelForm.MatchString(f.Channel):
		return bad("its channel is %.40q", f.Channel)
	case f.Serial < 1:
		return bad("its serial is %d", f.Serial)
	case f.Issued.IsZero() || !f.Expires.After(f.Issued) || f.Expires.Sub(f.Issued) > MaxValid:
		return bad("it is valid from %s to %s", f.Issued.Format(time.RFC3339), f.Expires.Format(time.RFC3339))
	case len(f.Packages) > maxPackages:
		return bad("it has %d packages, at most %d are allowed", len(f.Packages), maxPackages)
	}
	if _, err := ParseVersion(f.Version); err != nil {
		return bad("its version is %.80q", f.Version)
	}
	if _, err := time.Parse(time.DateOnly, f.Date); err != nil {
		return bad("its date is %.40q", f.Date)
	}
	if f.Page != "" && !secure(f.Page) {
		return bad("its page is no https address")
	}
	if len(f.Notes) > maxLanguage {
		return bad("it has notes in %d languages", len(f.Notes))
	}
	for tag, text := range f.Notes {
		if !tagForm.MatchString(tag) || len(tag) > maxLanguage || !plain(text, maxNotes) {
			return bad("its notes (%.40q) are too long or no plain text", tag)
		}
	}
	seen := map[Package]bool{}
	for i := range f.Packages {
		p := &f.Packages[i]
		if err := p.check(); err != nil {
			return err
		}
		key := Package{OS: p.OS, Arch: p.Arch, Kind: p.Kind}
		if seen[key] {
			return bad("it has two packages %s for %s/%s", p.Kind, p.OS, p.Arch)
		}
		seen[key] = true
	}
	return nil
}

// check is for one package. A kind that this build does not know is left to
// newer ones.
func (p *Package) check() error {
	switch {
	case !wordForm.MatchString(p.OS) || !wordForm.MatchString(p.Arch) || !wordForm.MatchString(string(p.Kind)):
		return bad("a package is for %.20q/%.20q (%.20q)", p.OS, p.Arch, p.Kind)
	case !nameForm.MatchString(p.Name):
		return bad("a package is called %.80q", p.Name)
	case p.Size < 1 || p.Size > MaxPackage:
		return bad("%s has %d bytes", p.Name, p.Size)
	case !sumForm.MatchString(p.SHA256):
		return bad("%s has no SHA-256", p.Name)
	}
	u, err := url.Parse(p.URL)
	if err != nil || p.URL == "" || !plain(p.URL, maxText) || u.User != nil || u.Fragment != "" || u.IsAbs() && !secure(p.URL) || !u.IsAbs() && u.Host != "" {
		return bad("%s has no https address", p.Name)
	}
	return nil
}

// Address is where the package is, for a feed that was read from base. Error:
// update_invalid when that is no https address.
func (p *Package) Address(base string) (string, error) {
	b, err := url.Parse(base)
	if err != nil {
		return "", bad("its own address cannot be read")
	}
	u, err := b.Parse(p.URL)
	if err != nil || !secure(u.String()) {
		return "", bad("%s has no https address", p.Name)
	}
	return u.String(), nil
}

// Note is what is new in a language, else in English, else "".
func (f *Feed) Note(tag string) string {
	if s := f.Notes[tag]; s != "" {
		return s
	}
	if main, _, _ := strings.Cut(tag, "-"); f.Notes[main] != "" {
		return f.Notes[main]
	}
	return f.Notes["en"]
}

// Find is the package for a computer and a kind of installation, nil when the
// feed has none.
func (f *Feed) Find(system, arch string, kind Kind) *Package {
	for i := range f.Packages {
		p := &f.Packages[i]
		if p.OS == system && p.Arch == arch && p.Kind == kind && Installable(system, kind) {
			return p
		}
	}
	return nil
}

// secure says whether an address is https with a host.
func secure(s string) bool {
	u, err := url.Parse(s)
	return err == nil && u.Scheme == "https" && u.Hostname() != "" && u.User == nil && plain(s, maxText)
}

// plain says whether s is text without control characters but line ends and
// tabs, of at most most bytes.
func plain(s string, most int) bool {
	return len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t'
	})
}

// kinds tells a package by its name: what it ends with, on which system.
var kinds = []struct {
	end, system string
	kind        Kind
}{
	{".deb", "linux", KindDeb}, {".rpm", "linux", KindRPM}, {".run", "linux", KindRun}, {".exe", "windows", KindSetup}, {".dmg", "darwin", KindDMG},
	{".tar.xz", "", KindTar}, {".tar.gz", "", KindTar}, {".zip", "", KindTar},
}

var (
	archWords   = regexp.MustCompile(`(?i)(?:^|[._-])(amd64|x86_64|x64|arm64|aarch64)(?:[._-]|$)`)
	systemWords = regexp.MustCompile(`(?i)(?:^|[._-])(linux|windows|macos|darwin)(?:[._-]|$)`)
)

// Classify says for which computer a file of that name is; ok is false for one
// that is no package of the desktop.
func Classify(name string) (p Package, ok bool) {
	p.Name = path.Base(name)
	low := strings.ToLower(p.Name)
	if strings.HasPrefix(low, "neuron-tracker") {
		return p, false
	}
	for _, k := range kinds {
		stem, found := strings.CutSuffix(low, k.end)
		if !found {
			continue
		}
		p.Kind, p.OS = k.kind, k.system
		if m := systemWords.FindStringSubmatch(stem); p.OS == "" && m != nil {
			p.OS = map[string]string{"macos": "darwin"}[m[1]]
			if p.OS == "" {
				p.OS = m[1]
			}
		}
		if m := archWords.FindStringSubmatch(stem); m != nil {
			p.Arch = map[string]string{"x86_64": "amd64", "x64": "amd64", "aarch64": "arm64"}[m[1]]
			if p.Arch == "" {
				p.Arch = m[1]
			}
		}
		return p, p.OS != "" && p.Arch != ""
	}
	return p, false
}

// Installable says whether a kind can be installed on a system.
func Installable(system string, k Kind) bool { return slices.Contains(systems[k], system) }
