package bom

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const mit = "MIT License\n\nPermission is hereby granted, free of charge, to any person\nobtaining a copy of this software"

func TestKind(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		mit: "MIT",
		"                   Apache License\n             Version 2.0, January 2004":                                  "Apache-2.0",
		"# Mozilla Public License Version 2.0\n... the GNU General Public License ...":                               "MPL-2.0",
		"Redistribution and use in source and binary forms, with or without modification":                            "BSD-2-Clause",
		"Redistribution and use in source\n// and binary forms ... may be used to endorse or promote\nproducts":      Other,
		"Redistribution and use in source\n * and binary forms ... may be used to endorse or promote\n * products":   "BSD-3-Clause",
		"Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee":       "ISC",
		"This software is provided ‘as-is’, without any warranty ... Altered source versions must be plainly marked": "Zlib",
		"GNU GENERAL PUBLIC LICENSE Version 3, 29 June 2007":                                                         "GPL-3.0-only",
		"This Font Software is licensed under the SIL Open Font License, Version 1.1.":                               "OFL-1.1",
		"This is free and unencumbered software released into the public domain.":                                    "Unlicense",
		"All rights reserved.": Other,
		"":                     Other,
	} {
		if got := Kind(text); got != want {
			t.Errorf("%.60q: %s, want %s", text, got, want)
		}
	}
}

func FuzzKind(f *testing.F) {
	f.Add(mit)
	f.Fuzz(func(t *testing.T, text string) {
		k := Kind(text)
		if k != Other && !slices.ContainsFunc(rules, func(r struct {
			kind string
			all  []string
		}) bool {
			return r.kind == k
		}) {
			t.Errorf("%q is %q", text, k)
		}
	})
}

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLicencesOfAFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"LICENSE": mit + "\r\n", "NOTICE": "made by us", "licence.go": "package x", "font/OFL.txt": "SIL Open Font License",
		"testdata/LICENSE": mit, "vendor/a/LICENSE": mit, "README.md": mit, "sub/COPYING.md": mit,
	} {
		put(t, filepath.Join(dir, filepath.FromSlash(name)), text)
	}
	ls, err := Licences(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range ls {
		names = append(names, l.Name+":"+l.Kind)
	}
	if got, want := strings.Join(names, " "), "LICENSE:MIT NOTICE: font/OFL.txt:OFL-1.1 sub/COPYING.md:MIT"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if strings.Contains(ls[0].Text, "\r") {
		t.Error("line ends of Windows are kept")
	}
	put(t, filepath.Join(dir, "UNLICENSE"), strings.Repeat("x", maxText+1))
	if _, err := Licences(dir); err == nil {
		t.Error("a licence without end was read")
	}
}

// TestDelivery describes this very test program.
func TestDelivery(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("SKIPPED: no go command in the PATH")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	native, llama := filepath.Join(dir, "native"), filepath.Join(dir, "LICENSE.llama")
	put(t, filepath.Join(native, ".installed"), "@x/linux-x64 3.2.1 sha512-AAAA\n")
	put(t, filepath.Join(native, "LICENSE"), mit)
	put(t, filepath.Join(native, "libllama.v0.4.0.so"), "code")
	put(t, llama, mit+" of others")
	o := Options{Name: "neuron", Version: "1.2.3", GoCommand: "go", Programs: []string{self}, Native: native, Llama: llama}
	d, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var text, again, doc bytes.Buffer
	if err := d.WriteText(&text); err != nil {
		t.Fatal(err)
	}
	if d2, err := New(t.Context(), o); err != nil || d2.WriteText(&again) != nil || text.String() != again.String() {
		t.Errorf("the same parts give another text (%v)", err)
	}
	for _, want := range []string{"llama.cpp and ggml 0.4.0: MIT", "@x/linux-x64 3.2.1: MIT", "Go standard library and runtime 1.", "Copyright 2009 The Go Authors", "of others"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if err := d.WriteSPDX(&doc, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	var parsed spdxDocument
	if err := json.Unmarshal(doc.Bytes(), &parsed); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{"SPDXRef-DOCUMENT": true}
	for _, p := range parsed.Packages {
		ids[p.ID] = true
	}
	for _, f := range parsed.Files {
		ids[f.ID] = true
	}
	if len(ids) != 1+len(parsed.Packages)+len(parsed.Files) || len(parsed.Files) != 2 || parsed.Creation.Created != "1970-01-01T00:00:00Z" {
		t.Errorf("%d ids for %d packages and %d files, created %s", len(ids), len(parsed.Packages), len(parsed.Files), parsed.Creation.Created)
	}
	for _, r := range parsed.Relationships {
		if !ids[r.Of] || !ids[r.To] {
			t.Errorf("%+v leads nowhere", r)
		}
	}
	// What is missing is named, and nothing half is made.
	for what, bad := range map[string]Options{
		"no program":         {Name: "n", Version: "1", GoCommand: "go", Programs: []string{llama}},
		"no such libraries":  {Name: "n", Version: "1", GoCommand: "go", Programs: []string{self}, Native: dir, Llama: llama},
		"no such licence":    {Name: "n", Version: "1", GoCommand: "go", Programs: []string{self}, Native: native, Llama: llama + "x"},
		"no such go command": {Name: "n", Version: "1", GoCommand: filepath.Join(dir, "go"), Programs: []string{self}},
	} {
		if _, err := New(t.Context(), bad); err == nil {
			t.Errorf("%s: taken", what)
		}
	}
}

// A module whose licence is missing must not be delivered.
func TestModuleWithoutLicence(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fake := filepath.Join(dir, "go")
	put(t, fake, "#!/bin/sh\necho '{\"Path\": \"example.org/x\", \"Version\": \"v1.0.0\", \"Dir\": \""+filepath.Join(dir, "x")+"\"}'\n")
	if err := os.Chmod(fake, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("SKIPPED: no shell to play the go command")
	}
	put(t, filepath.Join(dir, "x", "x.go"), "package x")
	modules := []Module{{Path: "example.org/x", Version: "v1.0.0"}}
	if err := FindLicences(t.Context(), fake, modules); err == nil || !strings.Contains(err.Error(), "example.org/x v1.0.0 has no licence") {
		t.Errorf("%v", err)
	}
	put(t, filepath.Join(dir, "x", "LICENSE"), mit)
	if err := FindLicences(t.Context(), fake, modules); err != nil || len(modules[0].Licences) != 1 {
		t.Errorf("%+v, %v", modules, err)
	}
}
