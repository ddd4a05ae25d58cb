// Package bom says what a delivery is made of: the Go modules that are linked
// into its programs, the native libraries and the model, each with its licence.
// It writes them as one text for people and as an SPDX document for machines.
//
// internal/cmd/bom is its only user, when packages are built. It asks the Go
// command where modules are; no program that people get imports it.
package bom

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Module is a Go module that is linked into at least one program.
type Module struct {
	Path    string
	Version string
	// Sum is the hash of its source as go.sum has it ("h1:...").
	Sum string
	// Programs are the base names of the programs that have it, sorted.
	Programs []string
	Licences []Licence
}

// Linked reads from the programs themselves what was linked into them, and with
// which Go version ("go1.26.0"). What is replaced by a folder of ours is ours and
// not listed. Programs of other systems can be read as well.
func Linked(programs ...string) (modules []Module, goVersion string, err error) {
	found := map[string]*Module{}
	for _, p := range programs {
		info, err := buildinfo.ReadFile(p)
		if err != nil {
			return nil, "", fmt.Errorf("read what %s is made of: %w", p, err)
		}
		if goVersion != "" && goVersion != info.GoVersion {
			return nil, "", fmt.Errorf("%s was built with %s, others with %s", p, info.GoVersion, goVersion)
		}
		goVersion = info.GoVersion
		for _, d := range info.Deps {
			if d.Replace != nil {
				d = d.Replace
			}
			if d.Version == "" || d.Version == "(devel)" {
				continue
			}
			key := d.Path + "@" + d.Version
			if found[key] == nil {
				found[key] = &Module{Path: d.Path, Version: d.Version, Sum: d.Sum}
			}
			m := found[key]
			if name := filepath.Base(p); !slices.Contains(m.Programs, name) {
				m.Programs = append(m.Programs, name)
				slices.Sort(m.Programs)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		modules = append(modules, *found[key])
	}
	return modules, goVersion, nil
}

// FindLicences reads the licences of modules from the module cache, with the Go
// command. A module without one is an error: it must not be delivered.
func FindLicences(ctx context.Context, goCommand string, modules []Module) error {
	dirs, err := moduleDirs(ctx, goCommand, modules)
	if err != nil {
		return err
	}
	var without []error
	for i := range modules {
		m := &modules[i]
		if m.Licences, err = Licences(dirs[m.Path+"@"+m.Version]); err != nil {
			return fmt.Errorf("licence of %s: %w", m.Path, err)
		}
		if len(m.Licences) == 0 {
			without = append(without, fmt.Errorf("%s %s has no licence", m.Path, m.Version))
		}
	}
	return errors.Join(without...)
}

func moduleDirs(ctx context.Context, goCommand string, modules []Module) (map[string]string, error) {
	args := []string{"mod", "download", "-json"}
	for _, m := range modules {
		args = append(args, m.Path+"@"+m.Version)
	}
	var out, said bytes.Buffer
	cmd := exec.CommandContext(ctx, goCommand, args...)
	cmd.Stdout, cmd.Stderr = &out, &said
	runErr := cmd.Run() // the answers say which module it was
	dirs := map[string]string{}
	for dec := json.NewDecoder(&out); ; {
		var a struct{ Path, Version, Dir, Error string }
		if err := dec.Decode(&a); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read the answer of the Go command: %w", errors.Join(err, runErr))
		}
		if a.Error != "" {
			return nil, fmt.Errorf("module %s %s: %s", a.Path, a.Version, a.Error)
		}
		dirs[a.Path+"@"+a.Version] = a.Dir
	}
	if runErr != nil {
		return nil, fmt.Errorf("%s mod download: %w: %s", goCommand, runErr, strings.TrimSpace(said.String()))
	}
	return dirs, nil
}

func goRoot(ctx context.Context, goCommand string) (string, error) {
	out, err := exec.CommandContext(ctx, goCommand, "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("%s env GOROOT: %w", goCommand, err)
	}
	return strings.TrimSpace(string(out)), nil
}
