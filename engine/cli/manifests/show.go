package manifests

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/llama/gguf"
)

// needJSON is what manifest show prints. Byte ranges are [offset,
// offset+bytes) of a file, piece runs [first, last).
type needJSON struct {
	Model        protocol.ModelID `json:"model,omitempty"` // with hashes only
	Publisher    string           `json:"publisher,omitempty"`
	Name         string           `json:"name"`
	Architecture string           `json:"architecture"`
	Layers       int              `json:"layers"`
	WholeOnly    string           `json:"whole_only"`
	Cuts         []int            `json:"cuts"`
	Bytes        int64            `json:"size"`         // of all files
	Unused       int64            `json:"unused_bytes"` // of them, of tensors that no node fetches
	InfoHash     string           `json:"info_hash,omitempty"`
	PieceLength  int64            `json:"piece_length"`
	Pieces       int              `json:"pieces"`

	Range protocol.Range `json:"range"`
	Need  struct {
		Bytes     int64        `json:"bytes"`
		WireBytes int64        `json:"wire_bytes"`
		Weights   int64        `json:"weight_bytes"`
		KVCell    int64        `json:"kv_bytes_per_cell"`
		Pieces    int          `json:"pieces"`
		Runs      []runJSON    `json:"piece_runs"`
		Extents   []extentJSON `json:"extents"`
		Tensors   []tensorJSON `json:"tensors"`
	} `json:"need"`
}

type runJSON struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

type extentJSON struct {
	File   string  `json:"file"`
	Offset int64   `json:"offset"`
	Bytes  int64   `json:"bytes"`
	Pieces runJSON `json:"pieces"`
	// Tensors is how many lie in it.
	Tensors int `json:"tensors"`
}

type tensorJSON struct {
	Name   string       `json:"name"`
	Use    manifest.Use `json:"use"`
	Layer  int          `json:"layer"`
	Type   string       `json:"type"`
	Dims   []uint64     `json:"dims"`
	SHA256 string       `json:"sha256,omitempty"`
	extentJSON
}

func needView(m *manifest.Manifest, n *manifest.Need, publisher ed25519.PublicKey) *needJSON {
	v := &needJSON{
		Model: m.Model, Publisher: hex.EncodeToString(publisher), Name: m.Name, Architecture: m.Architecture, Layers: m.Layers, WholeOnly: m.WholeOnly,
		Cuts: m.Cuts, Bytes: m.Size(), Unused: m.UseBytes(manifest.UseUnused), InfoHash: m.Torrent.InfoHash, PieceLength: m.Torrent.PieceLength, Pieces: m.Torrent.Pieces, Range: n.Range,
	}
	extent := func(e manifest.Extent) extentJSON {
		p := m.PiecesOf(e)
		first, last := m.TensorsAt(e)
		return extentJSON{File: m.Files[e.File].Name, Offset: e.Offset, Bytes: e.Bytes, Pieces: runJSON(p), Tensors: last - first}
	}
	v.Need.Bytes, v.Need.WireBytes = n.Bytes, n.WireBytes
	v.Need.Weights, v.Need.KVCell = m.WeightBytes(n.Range), m.KVCellBytes(n.Range)
	v.Need.Runs, v.Need.Extents, v.Need.Tensors = []runJSON{}, []extentJSON{}, []tensorJSON{}
	for _, p := range n.Pieces {
		v.Need.Runs = append(v.Need.Runs, runJSON(p))
		v.Need.Pieces += p.Last - p.First
	}
	for _, e := range n.Extents {
		v.Need.Extents = append(v.Need.Extents, extent(e))
	}
	for _, i := range n.Tensors {
		t := &m.Tensors[i]
		x := tensorJSON{
			Name: t.Name, Use: t.Use, Layer: t.Layer, Type: gguf.Type(t.Type).String(), Dims: t.Dims,
			extentJSON: extent(manifest.Extent{File: t.File, Offset: t.Offset, Bytes: t.Bytes}),
		}
		if t.SHA256 != (manifest.Hash{}) {
			x.SHA256 = t.SHA256.String()
		}
		v.Need.Tensors = append(v.Need.Tensors, x)
	}
	return v
}

// print is for people: what it is, what the range costs, then the tables.
func (v *needJSON) print(out io.Writer, m *manifest.Manifest) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "model\t%s (%s, %d layers, context %d)\n", v.Name, v.Architecture, v.Layers, m.Context)
	if v.Model != "" {
		fmt.Fprintf(w, "id\t%s\n", v.Model)
	}
	if v.Publisher != "" {
		fmt.Fprintf(w, "publisher\t%s\n", v.Publisher)
	}
	if m.License != "" {
		fmt.Fprintf(w, "licence\t%s\n", m.License)
	}
	fmt.Fprintf(w, "files\t%s, %d tensors\n", counted(len(m.Files), "file of ", "files of ")+megabytes(v.Bytes), len(m.Tensors))
	if v.Unused > 0 {
		fmt.Fprintf(w, "unused\t%s (%.1f %%): no node fetches them\n", megabytes(v.Unused), percentOf(v.Unused, v.Bytes))
	}
	fmt.Fprintf(w, "torrent\t%d pieces of %d KiB\n", v.Pieces, v.PieceLength>>10)
	switch {
	case v.WholeOnly != "":
		fmt.Fprintf(w, "cuts\tnone: %s\n", v.WholeOnly)
	case len(m.Ends) == 0:
		fmt.Fprintf(w, "cuts\tat every layer\n")
	default:
		fmt.Fprintf(w, "cuts\tin two at layers %v; not every range is legal\n", v.Cuts)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	n := &v.Need
	if v.Range.Len() > 0 {
		fmt.Fprintf(out, "\nA node with layers %s holds %s (%.1f %% of the model): %s and %s, in %s.\n", v.Range, megabytes(n.Bytes), percentOf(n.Bytes, v.Bytes),
			headers(m), counted(len(n.Tensors), "tensor", "tensors"), counted(len(n.Extents), "stretch of bytes", "stretches of bytes"))
	} else {
		fmt.Fprintf(out, "\nThe metadata alone, which is all that a gateway needs, is %s.\n", megabytes(n.Bytes))
	}
	fmt.Fprintf(out, "That takes %s in %s: %s to fetch, of which %s belong to other layers.\n", counted(n.Pieces, "piece", "pieces"),
		counted(len(n.Runs), "run", "runs"), megabytes(n.WireBytes), megabytes(n.WireBytes-n.Bytes))
	if n.KVCell > 0 {
		fmt.Fprintf(out, "Each position of a session takes %d bytes of KV memory on it.\n", n.KVCell)
	}
	fmt.Fprint(out, "Below, TO is the first byte behind; the last piece named is included.\n\n")
	fmt.Fprintln(w, "FILE\tFROM\tTO\tBYTES\tPIECES\tTENSORS")
	for _, e := range n.Extents {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\t%d\n", e.File, e.Offset, e.Offset+e.Bytes, e.Bytes, e.Pieces, e.Tensors)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if len(n.Tensors) == 0 {
		return nil
	}
	fmt.Fprintln(out)
	fmt.Fprintln(w, "TENSOR\tFOR\tTYPE\tDIMENSIONS\tFILE\tFROM\tTO\tBYTES\tPIECES")
	for _, t := range n.Tensors {
		dims := strings.ReplaceAll(strings.Trim(fmt.Sprint(t.Dims), "[]"), " ", " x ")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\n", t.Name, purpose(t.Use, t.Layer), t.Type, dims, t.File, t.Offset, t.Offset+t.Bytes, t.Bytes, t.Pieces)
	}
	return w.Flush()
}

// headers says what of the need is no tensor.
func headers(m *manifest.Manifest) string {
	if m.WholeOnly != "" {
		return "whole files, with their headers"
	}
	return fmt.Sprintf("the header of %s", megabytes(m.Files[0].Header))
}

func purpose(u manifest.Use, layer int) string {
	switch u {
	case manifest.UseLayer:
		return fmt.Sprintf("layer %d", layer)
	case manifest.UseEnds:
		return "head and tail"
	case manifest.UseAll:
		return "every node"
	}
	return string(u)
}

// String is "first-last" with the last one included, as people count pieces.
func (r runJSON) String() string {
	if r.Last-r.First == 1 {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last-1)
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func megabytes(n int64) string {
	if n < 1e6 {
		return fmt.Sprintf("%.1f kB", float64(n)/1e3)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

func percentOf(n, of int64) float64 { return 100 * float64(n) / float64(of) }
