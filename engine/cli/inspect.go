package cli

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"neuron/engine/artifact"
	"neuron/engine/planner"
	"neuron/engine/probe"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// inspectCommand prints what a GGUF is, how it may be cut, and what that takes.
func inspectCommand() *cobra.Command {
	var asJSON, withID bool
	var memory float64
	c := &cobra.Command{
		Use:   "inspect FILE.gguf",
		Short: "Say what a GGUF is, what it costs and how it may be cut",
		Long: `Say what a GGUF is, what its layers cost, where it may be cut, and what this
computer could hold of it. Only the file's header is read; its id, which needs a
hash over all of it, is computed for --id and --json.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			out := c.OutOrStdout()
			var src *artifact.Source
			if asJSON || withID {
				var err error
				if src, err = artifact.Inspect(c.Context(), args[0], "", logs().For("artifact")); err != nil {
					return err
				}
			}
			if asJSON {
				shard := artifact.Shard{Source: src, Range: protocol.Range{Last: src.Model.Layers}}
				report := shard.Capability(chunkRows)
				report.WeightBytes = src.Weight
				return printJSON(out, report)
			}
			v, err := inspect(args[0], memory)
			if err != nil {
				return err
			}
			if src != nil {
				v.id = src.ID
			}
			return v.print(out)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the capability report as JSON")
	c.Flags().BoolVar(&withID, "id", false, "hash the file and print the model's id")
	c.Flags().Float64Var(&memory, "memory", 0, "memory of the computer in question, in GB (0: what this one has available)")
	return c
}

// inspection is what the command says.
type inspection struct {
	id      protocol.ModelID
	model   *family.Model
	plan    *planner.Model
	memory  int64
	holding planner.Holding
}

// inspect reads a file's header. memory is in GB; 0: this computer's.
func inspect(path string, memory float64) (*inspection, error) {
	m, err := publish.Describe([]string{path}, publish.Options{})
	if err != nil {
		return nil, err
	}
	m.Model = protocol.ModelIDOf(make([][32]byte, len(m.Files))) // any: nothing was hashed
	v := new(inspection)
	if v.plan, err = planner.ModelOf(m); err != nil {
		return nil, err
	}
	f, err := gguf.OpenModel(path)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "%s is not a usable GGUF: %w", path, err)
	}
	defer f.Close()
	// As a node reads it, so that what cannot be run is not described either.
	if v.model, err = artifact.Describe(path, f); err != nil {
		return nil, err
	}
	v.memory = int64(memory * 1e9)
	if v.memory <= 0 {
		now, err := probe.ReadMemory()
		if err != nil {
			return nil, err
		}
		v.memory = now.AvailableBytes
	}
	// The file is here already: its disk is no limit.
	free, err := probe.FreeDisk(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	held := planner.Held{Model: v.plan.ID, Parts: v.plan.Parts, InPlace: true}
	all, err := planner.New(planner.Limits{Memory: v.memory, Disk: free}, []planner.Held{held}).Holdings([]*planner.Model{v.plan})
	if err != nil {
		return nil, err
	}
	v.holding = all[0]
	return v, nil
}

// talk is the conversation that memory is stated for: 32K, or what the model
// allows.
func (v *inspection) talk() int { return min(32<<10, v.model.Context) }

// kvElem is the size of a cached key or value: F16.
const kvElem = 2

// conversation is what layers keep of one conversation of so many tokens, pads
// that the range needs with them.
func (v *inspection) conversation(r protocol.Range, tokens int) int64 {
	m := v.model.RangeMemory(r.First, r.Last, kvElem)
	n := (m.Full+m.Indexer)*int64(tokens) + m.State
	if w := v.model.WindowCells(chunkRows); w > 0 {
		tokens = min(tokens, w)
	}
	return n + m.Window*int64(tokens)
}

// takes is the sentence for a range.
func (v *inspection) takes(r protocol.Range) string {
	p := &v.plan.Parts
	weights := p.All
	for _, b := range p.Layers[r.First:r.Last] {
		weights += b
	}
	if r.First == 0 {
		weights += p.Head
	}
	if r.Last == v.plan.Layers {
		weights += p.Tail
	}
	if r.First == 0 || r.Last == v.plan.Layers {
		weights += p.Ends
	}
	return planner.Takes(r, weights, v.conversation(r, v.talk()), v.talk())
}

// examples are the ranges whose cost is told: a third in the middle, and the
// whole.
func (v *inspection) examples() []protocol.Range {
	n := v.plan.Layers
	whole := protocol.Range{Last: n}
	if v.model.WholeOnly != "" || n < 3 {
		return []protocol.Range{whole}
	}
	middle := protocol.Range{First: n / 3, Last: 2 * n / 3}
	for middle.Last < n && v.plan.Legal(middle) != nil {
		middle.Last++
	}
	if v.plan.Legal(middle) != nil || middle == whole {
		return []protocol.Range{whole}
	}
	return []protocol.Range{middle, whole}
}

func (v *inspection) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "model\t%s\n", v.plan.Name)
	if v.id != "" {
		fmt.Fprintf(w, "id\t%s\n", v.id)
	}
	fmt.Fprintf(w, "family\t%s\n", v.model.Arch)
	fmt.Fprintf(w, "layers\t%d\n", v.plan.Layers)
	fmt.Fprintf(w, "context\t%d tokens\n", min(v.model.Context, protocol.MaxContext))
	fmt.Fprintf(w, "seam\t%d floats per token\n", v.model.Width())
	fmt.Fprintf(w, "cuts\t%s\n", cuts(v.model))
	for i, r := range v.examples() {
		what := ""
		if i == 0 {
			what = "cost"
		}
		fmt.Fprintf(w, "%s\t%s\n", what, v.takes(r))
	}
	fmt.Fprintf(w, "%.1f GB\t%s\n", float64(v.memory)/1e9, v.room())
	if err := w.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// room says what a computer with this memory could hold.
func (v *inspection) room() string {
	switch h := &v.holding; {
	case h.Refused != nil:
		return "of memory could hold nothing of it: " + h.Text
	case h.Whole:
		return "of memory could hold all of it"
	default:
		var parts []string
		for _, q := range h.Ranges {
			parts = append(parts, v.takes(q.Range))
		}
		return "of memory could hold one of: " + strings.Join(parts, "; ")
	}
}

// cuts says where the model may be cut in two, and which ranges a node may hold.
func cuts(m *family.Model) string {
	if m.WholeOnly != "" {
		return "none: " + m.WholeOnly
	}
	legal, all := 0, 0
	for first := range m.Layers {
		for last := first + 1; last <= m.Layers; last++ {
			all++
			if m.CheckRange(first, last) == nil {
				legal++
			}
		}
	}
	if legal == all {
		return "at every layer"
	}
	at := m.Cuts()
	if len(at) == m.Layers-1 {
		return fmt.Sprintf("in two at every layer; %d of %d ranges of layers may be held", legal, all)
	}
	return fmt.Sprintf("before layers %s; %d of %d ranges of layers may be held", spans(at), legal, all)
}

// spans writes ascending numbers: 1, 2, 6 to 9.
func spans(list []int) string {
	var parts []string
	for i := 0; i < len(list); {
		j := i
		for j+1 < len(list) && list[j+1] == list[j]+1 {
			j++
		}
		if j-i < 2 {
			for _, n := range list[i : j+1] {
				parts = append(parts, fmt.Sprint(n))
			}
		} else {
			parts = append(parts, fmt.Sprintf("%d to %d", list[i], list[j]))
		}
		i = j + 1
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}
