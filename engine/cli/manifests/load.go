package manifests

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/publish"
)

// readManifest reads a signed manifest, without more than a manifest may have.
func readManifest(path string) (*manifest.Signed, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeNotFound, "manifest: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, manifest.MaxBytes+1))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "manifest: %w", err)
	}
	return manifest.ParseSigned(raw)
}

// loadManifest tells a signed manifest from a GGUF by its first byte.
func loadManifest(ctx context.Context, path string, hash bool, progress io.Writer) (*manifest.Manifest, ed25519.PublicKey, error) {
	if f, err := os.Open(path); err == nil {
		first := make([]byte, 1)
		_, err = io.ReadFull(f, first)
		f.Close()
		if err == nil && bytes.Equal(first, []byte("{")) {
			s, err := readManifest(path)
			if err != nil {
				return nil, nil, err
			}
			return s.Manifest, s.Publisher, nil
		}
	}
	if !hash {
		m, err := publish.Describe([]string{path}, publish.Options{})
		return m, nil, err
	}
	p := newHashing(progress)
	r, err := publish.Build(ctx, []string{path}, publish.Options{Progress: p.update})
	p.end()
	if err != nil {
		return nil, nil, err
	}
	return r.Manifest, nil, nil
}

// filesFor puts paths into the manifest's order by their names; other names
// are taken in the order in which they were given.
func filesFor(m *manifest.Manifest, given []string) ([]string, error) {
	if st, err := os.Stat(given[0]); len(given) == 1 && err == nil && st.IsDir() {
		out := make([]string, len(m.Files))
		for i, f := range m.Files {
			out[i] = filepath.Join(given[0], f.Name)
		}
		return out, nil
	}
	if len(given) != len(m.Files) {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "%s has %s, %d were given", m.Name, counted(len(m.Files), "file", "files"), len(given))
	}
	out := make([]string, len(m.Files))
	for i, f := range m.Files {
		k := slices.IndexFunc(given, func(p string) bool { return filepath.Base(p) == f.Name })
		if k < 0 {
			return given, nil
		}
		out[i] = given[k]
	}
	return out, nil
}

// printDamage says what differs; an error when something does.
func printDamage(out io.Writer, s *manifest.Signed, damage []publish.Damage) error {
	m := s.Manifest
	if len(damage) == 0 {
		fmt.Fprintf(out, "%s: all %d tensors and %s are the publisher's (key %x).\n", m.Name, len(m.Tensors), counted(len(m.Files), "header", "headers"), s.Publisher)
		return nil
	}
	for _, d := range damage {
		name := m.Files[d.File].Name
		if d.Size >= 0 {
			fmt.Fprintf(out, "%s has %d bytes, expected %d\n", name, d.Size, m.Files[d.File].Size)
			continue
		}
		if d.Header {
			fmt.Fprintf(out, "%s: the header differs\n", name)
		}
		for _, i := range d.Tensors {
			t := &m.Tensors[i]
			fmt.Fprintf(out, "%s: %s (%s) differs\n", name, t.Name, purpose(t.Use, t.Layer))
		}
		if !d.Header && len(d.Tensors) == 0 {
			fmt.Fprintf(out, "%s: bytes outside of all tensors differ\n", name)
		}
	}
	return protocol.Errorf(protocol.CodeModelInvalid, "%s of %d of %s differ from the manifest",
		counted(len(damage), "file", "files"), len(m.Files), m.Name)
}

// hashing shows on a terminal how far reading is; elsewhere nothing.
type hashing struct {
	w            io.Writer
	start, shown time.Time
	width        int
}

func newHashing(w io.Writer) *hashing {
	f, ok := w.(*os.File)
	if ok {
		st, err := f.Stat()
		ok = err == nil && st.Mode()&os.ModeCharDevice != 0
	}
	if !ok {
		w = nil
	}
	now := time.Now()
	return &hashing{w: w, start: now, shown: now}
}

const hashingEvery = 200 * time.Millisecond

func (h *hashing) update(done, total int64) {
	now := time.Now()
	if h.w == nil || now.Sub(h.shown) < hashingEvery {
		return
	}
	h.shown = now
	text := fmt.Sprintf("reading %s of %s (%.0f %%), %s left", megabytes(done), megabytes(total), percentOf(done, total),
		publish.ETA(done, total, now.Sub(h.start)).Round(time.Second))
	fmt.Fprintf(h.w, "\r%-*s", h.width, text)
	h.width = len(text)
}

func (h *hashing) end() {
	if h.width > 0 {
		fmt.Fprintln(h.w)
	}
}
