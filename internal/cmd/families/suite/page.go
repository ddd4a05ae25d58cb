package suite

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"neuron/internal/atomicfile"
	"neuron/llama/archs"
)

// writePage writes the page from all results that are kept.
func writePage(path string, kept *results) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := atomicfile.Write(path, page(kept)); err != nil {
		return err
	}
	return os.Chmod(path, 0o644)
}

const intro = `# Families

Which architectures of the pinned llama.cpp run as stages, and how that is known. "make families" writes this page (` + "`internal/cmd/families`" + `); it takes about a quarter of an hour of one processor core, and goes on where the last run ended.

For each architecture a small random model with the structure of the published ones (` + "`llama/archs`" + `) is compared with routes of stages cut from it: at every boundary, and at several cuts in three and four. Prompts of several chunks and greedy steps behind them must give the same logits, bit for bit, with the pinned settings (one thread, chunks of 64 rows). In q4_0 two interleaved sessions, forgetting the newest positions and going on, and saving and restoring state are compared, too. q4_0 and q4_K are types that the processor's kernels repack, q5_0 is one that they do not. Variants of a family are checked in f32 and q4_0.

`

const columns = `
**cuts**: legal ones of all boundaries between layers. **pads**: the most layers of zeros that a stage needs around its own. **width**: numbers per row at a seam; **KV**: bytes per position over all layers of the small model, in f16, and what a session takes whatever its length. **entry**: the node that hidden rows overwrite; "rows" gives them to the library as they are. **beside**: what crosses a seam beside hidden rows. Figures are those of the small models.

`

func page(kept *results) []byte {
	var b bytes.Buffer
	b.WriteString(intro)
	rows := table(kept)
	totals(&b, rows)
	b.WriteString(columns)
	b.WriteString("| family | structure | result | cuts | pads | width | KV | entry | beside | types |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		r.write(&b)
	}
	notes(&b, rows)
	b.WriteString("\n## Left out\n\nArchitectures that the library knows and of which there is no model here.\n\n| architecture | why |\n| --- | --- |\n")
	for _, l := range archs.LeftOut() {
		fmt.Fprintf(&b, "| %s | %s |\n", l.Arch, l.Reason)
	}
	vulkanPart(&b, kept)
	return b.Bytes()
}

// row is a model with its outcomes, in the order of Types.
type row struct {
	model archs.Model
	all   []*Outcome
	state State
}

func table(kept *results) []row {
	var out []row
	for _, m := range archs.List() {
		r := row{model: m}
		for _, t := range Types {
			if o, ok := kept.get(m.Name, t, ""); ok {
				r.all = append(r.all, o)
				r.state = max(r.state, o.State())
			}
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b row) int { return strings.Compare(a.model.Name, b.model.Name) })
	return out
}

// totals counts architectures: one is as good as its worst variant that is not left
// whole; and models.
func totals(b *bytes.Buffer, rows []row) {
	arch := map[string]State{}
	var runs, models, certified int
	for _, r := range rows {
		models++
		if r.state == Certified {
			certified++
		}
		have, seen := arch[r.model.Arch]
		if s := r.state; !seen || s != Whole && (have == Whole || s > have) {
			arch[r.model.Arch] = s
		}
		if r.state != NotRun && r.state != Failed {
			runs++
		}
	}
	count := map[State]int{}
	for _, s := range arch {
		count[s]++
	}
	fmt.Fprintf(b, "Of %d architectures with a model here, **%d run**, and **%d are certified at every boundary**", len(arch), len(arch)-count[Failed]-count[NotRun], count[Certified])
	for _, part := range []struct {
		s    State
		text string
	}{{WithRule, "certified at some boundaries"}, {Whole, "served whole only"}, {Failed, "failed"}, {NotRun, "not run"}} {
		if n := count[part.s]; n > 0 {
			fmt.Fprintf(b, ", %d %s", n, part.text)
		}
	}
	fmt.Fprintf(b, ". With their variants these are %d models, of which %d run and %d are certified at every boundary.\n", models, runs, certified)
}

func (r row) write(b *bytes.Buffer) {
	if len(r.all) == 0 {
		fmt.Fprintf(b, "| %s | %s | not run | | | | | | | |\n", r.model.Name, r.model.Kind)
		return
	}
	o := r.all[0]
	for _, other := range r.all { // the one that says most
		if other.State() > o.State() {
			o = other
		}
	}
	var types []string
	for _, other := range r.all {
		types = append(types, other.Type)
	}
	fmt.Fprintf(b, "| %s | %s | ", r.model.Name, r.model.Kind)
	switch r.state {
	case Whole:
		fmt.Fprintf(b, "whole only | | | | | | | %s |\n", strings.Join(types, ", "))
		return
	case Failed:
		fmt.Fprintf(b, "**fails** in %s | | | | | | | %s |\n", o.Type, strings.Join(types, ", "))
		return
	case WithRule:
		b.WriteString("certified with a rule")
	default:
		b.WriteString("certified")
	}
	rep := o.Report
	pads := 0
	for _, other := range r.all {
		if other.Report != nil {
			pads = max(pads, other.Report.Pads)
		}
	}
	kv := fmt.Sprint(rep.KVBytesPerCell)
	if rep.StateBytes > 0 {
		kv += fmt.Sprintf(" + %d", rep.StateBytes)
	}
	entry := o.Entry
	if entry == "" {
		entry = "rows"
	} else {
		entry = "`" + entry + "`"
	}
	fmt.Fprintf(b, " | %d of %d | %s | %d | %s | %s | %s | %s |\n", o.Legal, o.Layers-1, blank(pads), rep.Width, kv, entry,
		strings.Join(rep.Sidebands, ", "), strings.Join(types, ", "))
}

func blank(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// notes says why models are whole, what failed, and what is special about families.
func notes(b *bytes.Buffer, rows []row) {
	section := func(title string, wanted func(row) (string, bool)) {
		var lines []string
		for _, r := range rows {
			if text, ok := wanted(r); ok {
				lines = append(lines, fmt.Sprintf("| %s | %s |\n", r.model.Name, cell(text)))
			}
		}
		if len(lines) > 0 {
			fmt.Fprintf(b, "\n## %s\n\n| model | |\n| --- | --- |\n%s", title, strings.Join(lines, ""))
		}
	}
	section("Failures", func(r row) (string, bool) {
		for _, o := range r.all {
			if o.State() == Failed {
				return o.Type + ": " + o.problem(), true
			}
		}
		return "", false
	})
	section("Served whole only", func(r row) (string, bool) {
		if r.state != Whole {
			return "", false
		}
		_, why, _ := strings.Cut(r.all[0].Report.WholeOnly, "not cut: ")
		return why, true
	})
	section("What is special", func(r row) (string, bool) {
		if r.state != Certified && r.state != WithRule || r.model.Name != r.model.Arch || r.all[0].Why == "" {
			return "", false
		}
		return r.all[0].Why, true
	})
}

// cell makes a text fit into a table's cell.
func cell(s string) string {
	if len(s) > 300 {
		s = s[:300] + "..."
	}
	return strings.NewReplacer("|", "\\|", "\n", " ").Replace(strings.ToValidUTF8(s, ""))
}

func vulkanPart(b *bytes.Buffer, kept *results) {
	var lines []string
	device := ""
	for _, m := range archs.List() {
		o, ok := kept.get(m.Name, thorough, deviceVulkan)
		if !ok {
			continue
		}
		if o.Vulkan == nil {
			lines = append(lines, fmt.Sprintf("| %s | %s | **fails**: %s | | | | |\n", m.Name, m.Kind, cell(o.problem())))
			continue
		}
		v := o.Vulkan
		device = v.Device
		lines = append(lines, fmt.Sprintf("| %s | %s | %.2g | %.2g | %.2g | %.3g | %d of %d |\n",
			m.Name, m.Kind, v.Same, v.Whole, v.Mixed, v.Spread, v.Agree, v.Steps))
	}
	if len(lines) == 0 {
		b.WriteString("\n## Vulkan\n\nNot run: \"make families-vulkan\" needs a Vulkan device, also one in software.\n")
		return
	}
	fmt.Fprintf(b, "\n## Vulkan\n\n\"make families-vulkan\" on %s, type %s: the largest difference of logits over %d rows. **stages**: routes of stages on the device against the whole model on the device, without fused operations (a seam divides what a device fuses, and rounds once more). **device**: the whole model on the device against the processor. **mixed**: routes with hops on both against the whole model on the processor, which is what an audit by another node sees. **tokens**: greedy tokens of the mixed routes that are the processor's.\n\n",
		device, thorough, vulkanPrompt+vulkanSteps)
	b.WriteString("| family | structure | stages | device | mixed | spread of logits | tokens |\n| --- | --- | --- | --- | --- | --- | --- |\n")
	for _, l := range lines {
		b.WriteString(l)
	}
}
