package bom

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Licence is one file with a licence, or with a notice that belongs to one.
type Licence struct {
	Name string // within the module, with slashes
	Kind string // the SPDX identifier; "" for a notice
	Text string
}

// Other is the kind of a text that is a licence and none of those known here.
const Other = "NOASSERTION"

var (
	licenceFile = regexp.MustCompile(`(?i)^(un)?licen[cs]e([-_.][a-z0-9.]+)*$|^copying([-_.][a-z0-9.]+)*$|^ofl(\.txt)?$`)
	noticeFile  = regexp.MustCompile(`(?i)^(notice|copyright|patents|authors)(\.(md|txt))?$`)
	// sourceFile is what has such a name and is code.
	sourceFile = regexp.MustCompile(`(?i)\.(go|c|h|js|json|ya?ml|sh|tmpl|html|svg|png)$`)
)

// maxText bounds a licence, in bytes; the longest ones have 40 KB.
const maxText = 256 << 10

// Licences reads the licences below a folder, sorted by name. Test material,
// examples and other modules' copies are left out: they are in no program.
func Licences(dir string) ([]Licence, error) {
	var out []Licence
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != dir && (slices.Contains([]string{"testdata", "test", "tests", "vendor", "node_modules", "example", "examples", "_examples", "docs"}, name) || strings.HasPrefix(name, ".")) {
				return filepath.SkipDir
			}
			return nil
		}
		licence := licenceFile.MatchString(name)
		if !d.Type().IsRegular() || sourceFile.MatchString(name) || !licence && !noticeFile.MatchString(name) {
			return nil
		}
		if info, err := d.Info(); err != nil || info.Size() > maxText {
			return fmt.Errorf("%s is too long for a licence (%w)", path, err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		l := Licence{Name: filepath.ToSlash(rel), Text: strings.ToValidUTF8(strings.ReplaceAll(string(b), "\r\n", "\n"), "?")}
		if licence {
			l.Kind = Kind(l.Text)
		}
		out = append(out, l)
		return nil
	})
	return out, err
}

// rules tell licences apart by sentences that only they have; the first one that
// fits counts.
var rules = []struct {
	kind string
	all  []string
}{
	{"MPL-2.0", []string{"mozilla public license", "version 2.0"}},
	{"Apache-2.0", []string{"apache license", "version 2.0"}},
	{"Apache-2.0", []string{"licensed under the apache license"}},
	{"AGPL-3.0-only", []string{"gnu affero general public license"}},
	{"LGPL-3.0-only", []string{"gnu lesser general public license", "version 3"}},
	{"LGPL-2.1-only", []string{"gnu lesser general public license"}},
	{"GPL-3.0-only", []string{"gnu general public license", "version 3"}},
	{"GPL-2.0-only", []string{"gnu general public license"}},
	{"OFL-1.1", []string{"sil open font license"}},
	{"Unlicense", []string{"this is free and unencumbered software released into the public domain"}},
	{"CC0-1.0", []string{"cc0 1.0 universal"}},
	{"Zlib", []string{"this software is provided 'as-is'", "altered source versions"}},
	{"ISC", []string{"permission to use, copy, modify, and", "for any purpose with or without fee"}},
	{"MIT", []string{"permission is hereby granted, free of charge, to any person obtaining a copy"}},
	{"BSD-3-Clause", []string{"redistribution and use in source and binary forms", "endorse or promote products"}},
	{"BSD-2-Clause", []string{"redistribution and use in source and binary forms"}},
}

var blanks = regexp.MustCompile(`[\s*#>"]+`)

// Kind is the SPDX identifier of a licence's text, or Other.
func Kind(text string) string {
	flat := strings.NewReplacer("’", "'", "‘", "'").Replace(strings.ToLower(blanks.ReplaceAllString(text, " ")))
	for _, r := range rules {
		if !slices.ContainsFunc(r.all, func(s string) bool { return !strings.Contains(flat, s) }) {
			return r.kind
		}
	}
	return Other
}

// kinds are the kinds of licences, without repeats, in their order.
func kinds(ls []Licence) []string {
	var out []string
	for _, l := range ls {
		if l.Kind != "" && !slices.Contains(out, l.Kind) {
			out = append(out, l.Kind)
		}
	}
	return out
}
