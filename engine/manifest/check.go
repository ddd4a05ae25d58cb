package manifest

import (
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"neuron/engine/protocol"
)

func bad(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeModelInvalid, "manifest: "+format, args...)
}

// Check says what is wrong with m (model_invalid; protocol_version for a schema
// of another build), or nil: then every figure may be relied on. It sees the
// manifest alone: whether the files are as it says, their hashes tell, and
// whether a tensor's bytes suit its type, the publisher checked.
func (m *Manifest) Check() error {
	if m.Version != Version {
		return protocol.Errorf(protocol.CodeProtocolVersion, "manifest of version %d, this build reads %d", m.Version, Version)
	}
	for _, part := range []func() error{m.checkNames, m.checkFiles, m.checkShape, m.checkTensors, m.checkUses, m.checkRanges, m.checkTorrent} {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// SafeName reports whether s can be the name of a file or folder on every
// system, and is nothing else: no path, no device of Windows, nothing that a
// person cannot see.
func SafeName(s string) bool {
	if s == "" || len(s) > maxName || s == "." || s == ".." || !printable(s) || strings.ContainsAny(s, `/\:*?"<>|`) ||
		strings.HasSuffix(s, ".") || strings.TrimSpace(s) != s {
		return false
	}
	base, _, _ := strings.Cut(s, ".")
	switch device := strings.ToUpper(strings.TrimSpace(base)); {
	case slices.Contains([]string{"CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"}, device):
		return false
	case len(device) > 3 && (device[:3] == "COM" || device[:3] == "LPT"):
		return !slices.Contains([]string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "0", "¹", "²", "³"}, device[3:])
	}
	return true
}

// printable reports whether s is UTF-8 of visible characters and plain spaces:
// neither controls, nor separators of lines, nor marks that turn the direction
// of writing.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

func text(s string) bool { return len(s) <= maxText && printable(s) }

func powerOfTwo(n uint64) bool { return n != 0 && n&(n-1) == 0 }

func (m *Manifest) checkNames() error {
	switch {
	case !SafeName(m.Name):
		return bad("the model's name %.80q is not a plain file name", m.Name)
	case m.Architecture == "" || !text(m.Architecture):
		return bad("architecture %.80q", m.Architecture)
	case !text(m.Tokenizer):
		return bad("tokenizer %.80q", m.Tokenizer)
	case !text(m.License):
		return bad("licence %.80q", m.License)
	case !text(m.WholeOnly):
		return bad("reason %.80q for not cutting", m.WholeOnly)
	}
	return nil
}

func (m *Manifest) checkFiles() error {
	if n := len(m.Files); n == 0 || n > MaxFiles {
		return bad("%d files, want 1 to %d", n, MaxFiles)
	}
	seen := make(map[string]bool, len(m.Files))
	hashes := make([][32]byte, len(m.Files))
	total := int64(0)
	for i, f := range m.Files {
		folded := strings.ToLower(f.Name)
		switch {
		case !SafeName(f.Name):
			return bad("file %d has name %.80q, which is not a plain file name", i, f.Name)
		case seen[folded]:
			return bad("two files are called %q", f.Name)
		case f.Size <= 0 || f.Size > MaxTotal-total:
			return bad("file %q has %d bytes after %d of others", f.Name, f.Size, total)
		case f.Header <= 0 || f.Header > f.Size || f.Header > maxHeader:
			return bad("file %q has a header of %d bytes and %d in all", f.Name, f.Header, f.Size)
		case !powerOfTwo(f.Alignment) || f.Alignment > maxAlignment:
			return bad("file %q is aligned to %d", f.Name, f.Alignment)
		}
		seen[folded] = true
		total += f.Size
		hashes[i] = f.SHA256
	}
	if m.Alignment != m.Files[0].Alignment {
		return bad("alignment %d, the first file has %d", m.Alignment, m.Files[0].Alignment)
	}
	if id := protocol.ModelIDOf(hashes); m.Model != id {
		return bad("model id %.80q, the files' hashes give %s", string(m.Model), id)
	}
	return nil
}

func (m *Manifest) checkShape() error {
	switch {
	case m.Layers < 1 || m.Layers > MaxLayers:
		return bad("%d layers, want 1 to %d", m.Layers, MaxLayers)
	case m.Context < 1 || m.Context > maxContext:
		return bad("context of %d tokens", m.Context)
	case m.Width < 1 || m.Width > maxWidth:
		return bad("width %d", m.Width)
	case len(m.KVLayerBytes) != 0 && len(m.KVLayerBytes) != m.Layers:
		return bad("KV memory of %d layers, the model has %d", len(m.KVLayerBytes), m.Layers)
	case m.KVWindow < 0 || m.KVWindow > maxContext || (m.KVWindow > 0) != (len(m.KVWindowLayers) > 0):
		return bad("window of %d positions in %d layers", m.KVWindow, len(m.KVWindowLayers))
	case len(m.KVWindowLayers) > len(m.KVLayerBytes):
		return bad("%d layers with a window, KV memory is known of %d", len(m.KVWindowLayers), len(m.KVLayerBytes))
	case !ascending(m.KVWindowLayers, 0, m.Layers-1):
		return bad("layers with a window are not ascending inside the model")
	}
	for i, b := range m.KVLayerBytes {
		if b < 0 || b > maxKVLayer {
			return bad("layer %d takes %d bytes of KV memory per position", i, b)
		}
	}
	return m.checkMemory()
}

func (m *Manifest) checkMemory() error {
	for _, list := range [][]int64{m.KVWindowBytes, m.KVStateBytes} {
		if len(list) != 0 && len(list) != len(m.KVLayerBytes) {
			return bad("windows or states of %d layers, KV memory is known of %d", len(list), len(m.KVLayerBytes))
		}
	}
	for i, b := range m.KVWindowBytes {
		if b < 0 || b > m.KVLayerBytes[i] || (b > 0) != slices.Contains(m.KVWindowLayers, i) {
			return bad("layer %d has %d bytes in its window, of %d", i, b, m.KVLayerBytes[i])
		}
	}
	for i, b := range m.KVStateBytes {
		if b < 0 || b > maxState {
			return bad("layer %d keeps a state of %d bytes", i, b)
		}
	}
	return nil
}

// maxState bounds what a layer keeps whatever a session's length, in bytes.
const maxState = 1 << 34

// ascending reports whether list rises inside [least, most].
func ascending(list []int, least, most int) bool {
	for i, v := range list {
		if v < least || v > most || i > 0 && v <= list[i-1] {
			return false
		}
	}
	return true
}

// checkTensors holds the one layout that ggml accepts: in each file the first
// tensor right behind the header, every other at the first aligned offset after
// the one before. It rules out overlap and unsorted lists.
func (m *Manifest) checkTensors() error {
	if n := len(m.Tensors); n == 0 || n > MaxTensors {
		return bad("%d tensors, want 1 to %d", n, MaxTensors)
	}
	seen := make(map[string]bool, len(m.Tensors))
	file, at := -1, int64(0)
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if t.Name == "" || len(t.Name) > maxTensor || !printable(t.Name) {
			return bad("tensor %d has name %.80q", i, t.Name)
		}
		if seen[t.Name] {
			return bad("tensor %q occurs twice", t.Name)
		}
		seen[t.Name] = true
		if t.File < 0 || t.File >= len(m.Files) || t.File < file {
			return bad("tensor %q is in file %d after file %d, of %d", t.Name, t.File, file, len(m.Files))
		}
		f := &m.Files[t.File]
		if t.File > file {
			file, at = t.File, f.Header
			if uint64(f.Header)%f.Alignment != 0 {
				return bad("tensors of file %q begin at %d, which is not a multiple of %d", f.Name, f.Header, f.Alignment)
			}
		}
		if t.Offset != at {
			return bad("tensor %q begins at %d of file %q, expected at %d", t.Name, t.Offset, f.Name, at)
		}
		if t.Bytes <= 0 || t.Bytes > f.Size-at {
			return bad("tensor %q has %d bytes at %d of file %q, which has %d", t.Name, t.Bytes, at, f.Name, f.Size)
		}
		if !t.plausible() {
			return bad("tensor %q has %d bytes, dimensions %d, type %d", t.Name, t.Bytes, t.Dims, t.Type)
		}
		at = align(at+t.Bytes, f.Alignment)
	}
	return nil
}

func align(n int64, a uint64) int64 { return (n + int64(a) - 1) &^ (int64(a) - 1) }

// plausible compares bytes and elements: GGML's types take from an eighth of a
// byte to eight bytes for one.
func (t *Tensor) plausible() bool {
	if len(t.Dims) == 0 || len(t.Dims) > maxDims || t.Type > maxType {
		return false
	}
	n := uint64(1)
	for _, d := range t.Dims {
		hi, lo := bits.Mul64(n, d)
		if d == 0 || hi != 0 || lo > 16*MaxTotal {
			return false
		}
		n = lo
	}
	return uint64(t.Bytes) >= n/16 && uint64(t.Bytes) <= 8*n
}

// fileName holds the names of a model that is cut to llama.cpp's way of writing
// them, in a model of so many layers. They become names of files in a shard
// folder: of a layer's file the number, of any other tensor the whole name. So they may lead nowhere else,
// collide with nothing on a system that ignores capitals, and be no other
// file of that folder.
func (t *Tensor) fileName(layers int) bool {
	switch t.Use {
	case UseLayer:
		return strings.HasPrefix(t.Name, fmt.Sprintf("blk.%d.", t.Layer)) && SafeName(t.Name)
	case UseUnused:
		n, ok := BlockOf(t.Name)
		return ok && layers <= n && n < MaxLayers && SafeName(t.Name)
	}
	odd := func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' && r != '.' }
	return !strings.HasPrefix(t.Name, "blk.") && SafeName(t.Name) && !strings.ContainsFunc(t.Name, odd) &&
		(strings.HasSuffix(t.Name, ".weight") || strings.HasSuffix(t.Name, ".bias"))
}

// BlockOf is the block in a name like "blk.7.attn_q.weight", in llama.cpp's one
// way of writing it.
func BlockOf(name string) (int, bool) {
	rest, ok := strings.CutPrefix(name, "blk.")
	if !ok {
		return 0, false
	}
	digits, _, ok := strings.Cut(rest, ".")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || strconv.Itoa(n) != digits {
		return 0, false
	}
	return n, true
}

func (m *Manifest) checkUses() error {
	layers := make([]int, m.Layers)
	count := map[Use]int{}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		switch {
		case m.WholeOnly != "" && t.Use != UseAll:
			return bad("tensor %q has use %.20q in a model that is not cut", t.Name, string(t.Use))
		case t.Use == UseLayer && (t.Layer < 0 || t.Layer >= m.Layers):
			return bad("tensor %q belongs to layer %d of %d", t.Name, t.Layer, m.Layers)
		case m.WholeOnly == "" && !t.fileName(m.Layers):
			return bad("tensor %q with use %s, layer %d, has a name that no such tensor has", t.Name, t.Use, t.Layer)
		case t.Use == UseLayer:
			layers[t.Layer]++
		case !slices.Contains([]Use{UseHead, UseTail, UseEnds, UseAll, UseUnused}, t.Use):
			return bad("tensor %q has use %.20q", t.Name, string(t.Use))
		case t.Layer != -1:
			return bad("tensor %q has use %s and layer %d", t.Name, t.Use, t.Layer)
		}
		count[t.Use]++
	}
	if m.WholeOnly != "" {
		return nil
	}
	if i := slices.Index(layers, 0); i >= 0 {
		return bad("layer %d has no tensors", i)
	}
	switch {
	case count[UseHead]+count[UseEnds] == 0:
		return bad("no tensor is for the head")
	case count[UseTail]+count[UseEnds] == 0:
		return bad("no tensor is for the tail")
	case m.Tied != (count[UseEnds] > 0):
		return bad("tied is %t and %d tensors are for both ends", m.Tied, count[UseEnds])
	}
	return nil
}

func (m *Manifest) checkRanges() error {
	if m.WholeOnly != "" {
		if len(m.Cuts) != 0 || len(m.Ends) != 0 {
			return bad("cuts in a model that is not cut")
		}
		return nil
	}
	if n := len(m.Ends); n != 0 && n != m.Layers {
		return bad("legal ends for %d layers of %d", n, m.Layers)
	}
	for a, spans := range m.Ends {
		last := a // a gap keeps spans apart, so that each set has one form
		for i, s := range spans {
			if s.From <= last+min(i, 1) || s.To < s.From || s.To > m.Layers {
				return bad("stages from layer %d may end from %d to %d", a, s.From, s.To)
			}
			last = s.To
		}
	}
	if len(m.Ends) > 0 && !m.mayEnd(0, m.Layers) {
		return bad("the whole model is not a legal range")
	}
	cuts := make([]int, 0, m.Layers)
	for b := 1; b < m.Layers; b++ {
		if m.mayEnd(0, b) && m.mayEnd(b, m.Layers) {
			cuts = append(cuts, b)
		}
	}
	if !slices.Equal(cuts, m.Cuts) {
		return bad("the cuts do not follow from the legal ranges")
	}
	return nil
}

func (m *Manifest) checkTorrent() error {
	t := &m.Torrent
	if raw, err := hex.DecodeString(t.InfoHash); err != nil || len(raw) != 20 || hex.EncodeToString(raw) != t.InfoHash {
		return bad("info hash %.50q is not 40 hex digits", t.InfoHash)
	}
	if t.PieceLength < MinPieceLength || t.PieceLength > MaxPieceLength || !powerOfTwo(uint64(t.PieceLength)) {
		return bad("pieces of %d bytes", t.PieceLength)
	}
	if n := (m.Size() + t.PieceLength - 1) / t.PieceLength; n > MaxPieces || int64(t.Pieces) != n {
		return bad("%d pieces of %d bytes for %d bytes", t.Pieces, t.PieceLength, m.Size())
	}
	return nil
}
