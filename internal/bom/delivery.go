package bom

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Part is something of others that is delivered and is no Go module.
type Part struct {
	Name     string
	Version  string
	URL      string // purl, the name of the package in its registry
	Note     string // for people: what it is used for
	Licences []Licence
}

// Delivery is what one platform's packages hold.
type Delivery struct {
	Name    string // "neuron"
	Version string
	Go      string // "go1.26.0"
	Modules []Module
	Parts   []Part
	Files   []File
}

// Options name the pieces of a Delivery.
type Options struct {
	Name      string
	Version   string
	GoCommand string
	Programs  []string
	Native    string // folder with the llama.cpp libraries; "" without
	Llama     string // the licence of llama.cpp itself, which their package lacks
	Model     string // the bundled model; "" without
}

// New looks at the pieces. ctx bounds the Go command.
func New(ctx context.Context, o Options) (*Delivery, error) {
	d := &Delivery{Name: o.Name, Version: o.Version}
	var err error
	if d.Modules, d.Go, err = Linked(o.Programs...); err != nil {
		return nil, err
	}
	if err := FindLicences(ctx, o.GoCommand, d.Modules); err != nil {
		return nil, err
	}
	root, err := goRoot(ctx, o.GoCommand)
	if err != nil {
		return nil, err
	}
	std, err := licenceOf(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, fmt.Errorf("the licence of Go: %w", err)
	}
	d.Parts = append(d.Parts, Part{
		Name: "Go standard library and runtime", Version: strings.TrimPrefix(d.Go, "go"),
		URL: "pkg:golang/std@" + strings.TrimPrefix(d.Go, "go"), Note: "in all programs", Licences: std,
	})
	files := slices.Clone(o.Programs)
	if o.Native != "" {
		parts, libraries, err := native(o.Native, o.Llama)
		if err != nil {
			return nil, err
		}
		d.Parts = append(d.Parts, parts...)
		files = append(files, libraries...)
	}
	if o.Model != "" {
		files = append(files, o.Model)
	}
	for _, f := range files {
		sum, err := sumFile(f)
		if err != nil {
			return nil, err
		}
		d.Files = append(d.Files, sum)
	}
	return d, nil
}

// versioned is the name of libllama's file: libllama.v0.4.0.so, llama.v0.4.0.dll,
// libllama.metal.v0.4.0.dylib.
var versioned = regexp.MustCompile(`^(?:lib)?llama\.(?:[a-z]+\.)?v([0-9.]+)\.(?:so|dll|dylib)$`)

// native looks at the folder that llama/native/install.sh made.
func native(dir, licence string) ([]Part, []string, error) {
	b, err := os.ReadFile(filepath.Join(dir, ".installed"))
	if err != nil {
		return nil, nil, fmt.Errorf("native libraries: %w", err)
	}
	fields := strings.Fields(string(b))
	if len(fields) != 3 {
		return nil, nil, fmt.Errorf("%s/.installed: want name, version and hash, got %.200q", dir, b)
	}
	packaged, err := licenceOf(filepath.Join(dir, "LICENSE"))
	if err != nil {
		return nil, nil, fmt.Errorf("native libraries: %w", err)
	}
	ours, err := licenceOf(licence)
	if err != nil {
		return nil, nil, fmt.Errorf("the licence of llama.cpp: %w", err)
	}
	var files []string
	version := ""
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		n := e.Name()
		if n == "LICENSE" || strings.HasPrefix(n, ".") {
			continue
		}
		files = append(files, filepath.Join(dir, n))
		if m := versioned.FindStringSubmatch(n); m != nil {
			version = m[1]
		}
	}
	if version == "" {
		return nil, nil, fmt.Errorf("%s has no libllama", dir)
	}
	return []Part{{
		Name: "llama.cpp and ggml", Version: version, URL: "pkg:github/ggml-org/llama.cpp@v" + version,
		Note: "shared libraries beside the programs", Licences: ours,
	}, {
		Name: fields[0], Version: fields[1], URL: "pkg:npm/" + strings.Replace(fields[0], "@", "%40", 1) + "@" + fields[1],
		Note: "where their files come from; " + fields[2], Licences: packaged,
	}}, files, nil
}

func licenceOf(path string) ([]Licence, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	text := strings.ReplaceAll(string(b), "\r\n", "\n")
	return []Licence{{Name: filepath.Base(path), Kind: Kind(text), Text: text}}, nil
}
