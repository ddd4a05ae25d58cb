package publish

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// kvElem is the size of a cached key or value in the manifest's KV figures.
const kvElem = 2

// maxCutAlignment is the header region of layer files (llama/cut), which tensor
// data behind it has to be aligned within.
const maxCutAlignment = 64 << 10

// layout describes a model from its headers.
func layout(src *gguf.Model, o Options) (*manifest.Manifest, error) {
	meta := src.Meta()
	path := src.Files()[0].Path()
	refuse := func(format string, args ...any) error {
		return protocol.Errorf(protocol.CodeModelInvalid, path+": "+format, args...)
	}
	switch {
	case meta.Architecture() == "":
		return nil, refuse("the file does not say which architecture it is for (general.architecture is missing), so nobody could run it")
	case len(src.Tensors()) == 0:
		return nil, refuse("the file has metadata but no tensors: a vocabulary, not a model")
	case len(src.Tensors()) > manifest.MaxTensors:
		return nil, refuse("%d tensors, at most %d are supported", len(src.Tensors()), manifest.MaxTensors)
	case len(src.Files()) > manifest.MaxFiles:
		return nil, refuse("%d files, at most %d are supported", len(src.Files()), manifest.MaxFiles)
	}
	// What a node's load gate would refuse is not published: nodes would fetch it
	// for nothing.
	desc, err := family.DescribeWhole(meta, func(name string) bool { _, ok := src.Tensor(name); return ok })
	switch {
	case errors.Is(err, family.ErrLibrary):
		return nil, protocol.Errorf(protocol.CodeUnsupported, "%s: %w", path, err)
	case err != nil:
		return nil, refuse("%w", err)
	}
	m := &manifest.Manifest{
		Version: manifest.Version, Name: name(path, o.Name),
		Architecture: desc.Arch, Layers: desc.Layers, Context: desc.Context, Width: desc.Width(), Alignment: meta.Alignment,
		Cuts: []int{}, Ends: [][]manifest.Span{}, KVLayerBytes: desc.KVLayerBytes(0, desc.Layers, kvElem), KVWindowLayers: []int{},
		Tokenizer: tokenizer(meta), License: license(meta, o.License), Torrent: manifest.Torrent{Private: o.Private},
	}
	m.ChatTemplate = str(meta, "tokenizer.chat_template") != ""
	if m.Tied, err = list(m, src); err != nil {
		return nil, err
	}
	layerMemory(m, desc)
	m.WholeOnly = clip(whole(m, desc))
	if m.WholeOnly != "" {
		for i := range m.Tensors {
			m.Tensors[i].Use, m.Tensors[i].Layer = manifest.UseAll, -1
		}
	} else {
		m.Cuts, m.Ends = desc.Cuts(), ends(desc)
	}
	m.Torrent.PieceLength, err = pieceLength(m.Size(), o.PieceLength)
	if err != nil {
		return nil, err
	}
	m.Torrent.Pieces = int((m.Size() + m.Torrent.PieceLength - 1) / m.Torrent.PieceLength)
	return m, nil
}

// layerMemory says which part of a layer's memory slides and what it keeps
// whatever the session's length.
func layerMemory(m *manifest.Manifest, desc *family.Model) {
	if len(m.KVLayerBytes) == 0 {
		return
	}
	window, state := make([]int64, desc.Layers), make([]int64, desc.Layers)
	partly, states := false, false
	for i := range desc.Layers {
		l := desc.LayerMemory(i, kvElem)
		window[i], state[i] = l.Window, l.State
		states = states || l.State > 0
		if l.Window > 0 && desc.Window > 0 {
			m.KVWindowLayers, m.KVWindow = append(m.KVWindowLayers, i), desc.Window
			partly = partly || l.Window != l.Cell()
		}
	}
	if partly {
		m.KVWindowBytes = window
	}
	if states {
		m.KVStateBytes = state
	}
}

// list fills in files and tensors, all as UseAll.
func list(m *manifest.Manifest, src *gguf.Model) (tied bool, err error) {
	for _, f := range src.Files() {
		h := f.Header()
		m.Files = append(m.Files, manifest.File{
			Name: filepath.Base(f.Path()), Size: f.Size(), Alignment: h.Alignment,
			// A file without tensors may end before the data section.
			Header: min(h.DataOffset, f.Size()),
		})
	}
	tied = true
	for _, t := range src.Tensors() {
		n, err := t.Bytes()
		if err != nil {
			return false, protocol.Errorf(protocol.CodeModelInvalid, "%s: %w", src.Files()[t.File].Path(), err)
		}
		tied = tied && t.Name != "output.weight"
		m.Tensors = append(m.Tensors, manifest.Tensor{
			Name: t.Name, Dims: t.Dims, Type: uint32(t.Type), File: t.File, Offset: t.FileOffset, Bytes: int64(n),
			Use: manifest.UseAll, Layer: -1,
		})
	}
	// ggml wants tensors back to back in listing order, so they are sorted
	// already; the manifest's Check relies on it.
	return tied, nil
}

// whole assigns uses to tensors and says why the model may not be cut, or "".
// The rules are those of llama/cut: an unknown tensor might be needed anywhere.
func whole(m *manifest.Manifest, desc *family.Model) string {
	switch {
	case desc.WholeOnly != "":
		return desc.WholeOnly
	case m.Alignment > maxCutAlignment:
		return fmt.Sprintf("tensors are aligned to %d bytes, layer files take at most %d", m.Alignment, maxCutAlignment)
	}
	layers := make([]int, m.Layers)
	have := map[string]bool{}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		have[t.Name] = true
		if n, ok := manifest.BlockOf(t.Name); ok {
			switch {
			case n >= m.Layers+desc.Predicting:
				return fmt.Sprintf("tensor %q belongs to none of the %d layers", t.Name, m.Layers)
			case !manifest.SafeName(t.Name):
				return fmt.Sprintf("tensor %q has an unusual name", t.Name)
			case n >= m.Layers: // predicts further tokens
				t.Use = manifest.UseUnused
				continue
			}
			t.Use, t.Layer = manifest.UseLayer, n
			layers[n]++
			continue
		}
		use, ok := desc.TensorUse(t.Name, m.Tied)
		if !ok {
			return fmt.Sprintf("tensor %q is not known for the %s family, and could be needed by any layer", t.Name, desc.Arch)
		}
		t.Use = uses[use]
	}
	if i := slices.Index(layers, 0); i >= 0 {
		return fmt.Sprintf("layer %d has no tensors", i)
	}
	for _, n := range []string{"token_embd.weight", desc.Family().Norm} {
		if !have[n] {
			return fmt.Sprintf("there is no %s", n)
		}
	}
	return ""
}

// uses are the manifest's words for those of llama/family.
var uses = map[family.Use]manifest.Use{
	family.UseHead: manifest.UseHead, family.UseTail: manifest.UseTail, family.UseEnds: manifest.UseEnds, family.UseAll: manifest.UseAll,
}

// ends lists the legal ranges; empty when all are.
func ends(desc *family.Model) [][]manifest.Span {
	out := make([][]manifest.Span, desc.Layers)
	all := true
	for a := range out {
		spans := []manifest.Span{}
		for b := a + 1; b <= desc.Layers; b++ {
			switch k := len(spans); {
			case desc.CheckRange(a, b) != nil:
				all = false
			case k > 0 && spans[k-1].To == b-1:
				spans[k-1].To = b
			default:
				spans = append(spans, manifest.Span{From: b, To: b})
			}
		}
		out[a] = spans
	}
	if all {
		return [][]manifest.Span{}
	}
	return out
}

// name is the model's name for clients.
func name(path, given string) string {
	if given != "" {
		return given
	}
	base := filepath.Base(path)
	if prefix, _, _, ok := gguf.ParseSplitName(base); ok {
		return prefix
	}
	return strings.TrimSuffix(base, ".gguf")
}

func str(h *gguf.Header, key string) string {
	v, _ := h.Get(key)
	s, _ := v.Str()
	return s
}

func tokenizer(h *gguf.Header) string {
	s := str(h, "tokenizer.ggml.model")
	if pre := str(h, "tokenizer.ggml.pre"); pre != "" {
		s += "/" + pre
	}
	return clip(s)
}

func license(h *gguf.Header, given string) string {
	for _, s := range []string{given, str(h, "general.license"), str(h, "general.license.name")} {
		if s != "" {
			return clip(s)
		}
	}
	return ""
}

// clip makes a text of the model fit for a manifest: visible characters, at
// most 256 bytes.
func clip(s string) string {
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, " "), func(r rune) bool { return !unicode.IsPrint(r) }), " ")
	const most, dots = 256, "..."
	if len(s) <= most {
		return s
	}
	n := most - len(dots)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + dots
}

// The pieces of a model of usual size, and how many a small one should have at
// least.
const (
	usualPiece   = 4 << 20
	fewestPieces = 64
)

// pieceLength chooses one, or checks the one that was asked for.
func pieceLength(total, asked int64) (int64, error) {
	n := asked
	if n == 0 {
		n = usualPiece
		for n > manifest.MinPieceLength && total/n < fewestPieces {
			n /= 2
		}
		for n < manifest.MaxPieceLength && (total+n-1)/n > manifest.MaxPieces {
			n *= 2
		}
	}
	switch {
	case n < manifest.MinPieceLength || n > manifest.MaxPieceLength || n&(n-1) != 0:
		return 0, protocol.Errorf(protocol.CodeInvalidRequest, "pieces of %d bytes: want a power of two from 16 KiB to 16 MiB", n)
	case (total+n-1)/n > manifest.MaxPieces:
		return 0, protocol.Errorf(protocol.CodeInvalidRequest, "%d bytes need more than %d pieces of %d", total, manifest.MaxPieces, n)
	}
	return n, nil
}
