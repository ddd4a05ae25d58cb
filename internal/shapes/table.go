package shapes

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// Blocks of the reports: "<!-- table: sizes deepseek-v4-flash -->" begins one,
// "<!-- end -->" ends it, and what is between is written by Rewrite.
var block = regexp.MustCompile(`(?s)(<!-- table: ([a-z]+) ([a-z0-9.-]+) -->\n).*?(<!-- end -->)`)

// Tables are the kinds of blocks; a report has each of them for each of its
// models.
var Tables = []string{"sizes", "kv", "nodes", "seam", "measured", "speed"}

// Rewrite returns the text of a report in docs with all of its blocks written
// again. work is a folder for headers, of some ten megabytes.
func Rewrite(text, docs, work string) (string, error) {
	var failed error
	out := block.ReplaceAllStringFunc(text, func(old string) string {
		part := block.FindStringSubmatch(old)
		body, err := table(part[2], part[3], docs, work)
		if err != nil {
			failed = errors.Join(failed, err)
			return old
		}
		return part[1] + body + part[4]
	})
	return out, failed
}

// Blocks lists the blocks of a report as "kind name".
func Blocks(text string) []string {
	var out []string
	for _, part := range block.FindAllStringSubmatch(text, -1) {
		out = append(out, part[2]+" "+part[3])
	}
	return out
}

func table(kind, name, docs, work string) (string, error) {
	s, err := Find(name)
	if err != nil {
		return "", err
	}
	switch kind {
	case "sizes":
		return s.sizes(), nil
	case "kv":
		return s.kvTable(), nil
	case "nodes":
		return s.nodes(work)
	case "seam":
		return s.seams(), nil
	case "measured":
		return s.measured(docs)
	case "speed":
		return s.speed(docs)
	}
	return "", fmt.Errorf("shapes: no table %q", kind)
}

// rows writes a Markdown table.
func rows(head []string, body [][]string) string {
	var b strings.Builder
	line := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	line(head)
	rule := make([]string, len(head))
	for i := range rule {
		rule[i] = "---"
	}
	line(rule)
	for _, r := range body {
		line(r)
	}
	return b.String()
}

func gb(n int64) string { return fmt.Sprintf("%.2f GB", float64(n)/1e9) }

func (s *Shape) sizes() string {
	head := []string{"recipe"}
	for _, k := range s.KindList() {
		head = append(head, fmt.Sprintf("layer, %s (%d)", k, s.count(k)))
	}
	head = append(head, "embedding", "output and norms", "whole model")
	var body [][]string
	for _, r := range s.Recipes() {
		line := []string{r.Name}
		for _, k := range s.KindList() {
			line = append(line, gb(s.LayerBytes(s.typical(k), r)))
		}
		embed, tail := s.GlobalBytes(r)
		body = append(body, append(line, gb(embed), gb(tail), fmt.Sprintf("%.1f GB", float64(s.Bytes(r))/1e9)))
	}
	all, active := s.Weights()
	return fmt.Sprintf("%d layers, %.1f billion weights, %.1f billion of them for a token; GB are 10^9 bytes.\n\n", s.Layers(), float64(all)/1e9, float64(active)/1e9) + rows(head, body)
}

func (s *Shape) count(kind string) int {
	n := 0
	for _, k := range s.Kinds {
		if k == kind {
			n++
		}
	}
	return n
}

// typical is the last layer of a kind: the first ones may have tables of their
// own.
func (s *Shape) typical(kind string) int {
	for i := len(s.Kinds) - 1; ; i-- {
		if s.Kinds[i] == kind {
			return i
		}
	}
}

// Contexts are those that KV memory is stated for.
var Contexts = []int{4 << 10, 32 << 10, 128 << 10}

func (s *Shape) kvTable() string {
	head := []string{"one conversation of"}
	for _, k := range s.KindList() {
		head = append(head, "layer, "+k)
	}
	head = append(head, "whole model")
	var body [][]string
	for _, c := range Contexts {
		line := []string{fmt.Sprintf("%dK tokens", c>>10)}
		for _, k := range s.KindList() {
			line = append(line, mb(s.KV(s.First(k), c, ChunkRows)))
		}
		body = append(body, append(line, mb(s.KVAll(c, ChunkRows))))
	}
	return rows(head, body)
}

func mb(n int64) string {
	if n >= gigabyte {
		return gb(n)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}

func (s *Shape) nodes(work string) (string, error) {
	head := []string{"recipe", "computers of", "they take", "ranges, the last layer included"}
	var body [][]string
	for _, r := range s.Recipes() {
		if !s.Placed(r) {
			continue
		}
		m, err := s.Describe(work, r)
		if err != nil {
			return "", err
		}
		if m.WholeOnly != "" {
			return "", fmt.Errorf("shapes: %s may not be cut: %s", s.Name, m.WholeOnly)
		}
		for _, size := range NodeSizes {
			route, err := Place(m, size)
			if err != nil {
				return "", err
			}
			line := []string{r.Name, fmt.Sprintf("%d GB", size)}
			if route.Refused != "" {
				line = append(line, "not possible", route.Refused)
			} else {
				line = append(line, fmt.Sprint(len(route.Ranges)), ranges(route.Ranges))
			}
			body = append(body, line)
		}
	}
	return rows(head, body), nil
}

// ranges lists what nodes hold; of many, how many layers how many of them have.
func ranges(list []protocol.Range) string {
	var parts []string
	word := func(r protocol.Range) string {
		if r.Len() == 1 {
			return fmt.Sprint(r.First)
		}
		return fmt.Sprintf("%d–%d", r.First, r.Last-1)
	}
	const most = 12
	if len(list) > most {
		byLen := map[int]int{}
		longest := 0
		for _, r := range list {
			byLen[r.Len()]++
			longest = max(longest, r.Len())
		}
		for n := longest; n > 0; n-- {
			if byLen[n] > 0 {
				parts = append(parts, fmt.Sprintf("%d of %s", byLen[n], plural(n, "layer")))
			}
		}
		return strings.Join(parts, ", ") + ": " + word(list[0]) + ", " + word(list[1]) + ", …, " + word(list[len(list)-1])
	}
	for _, r := range list {
		parts = append(parts, word(r))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

func (s *Shape) seams() string {
	per := int64(s.Seam)
	return rows([]string{"a row at a seam", "F32", "F16"}, [][]string{
		{fmt.Sprintf("one token (%d floats)", per), fmt.Sprintf("%d KiB", 4*per>>10), fmt.Sprintf("%d KiB", 2*per>>10)},
		{fmt.Sprintf("a chunk of %d rows", ChunkRows), fmt.Sprintf("%.1f MB", float64(4*per*ChunkRows)/1e6), fmt.Sprintf("%.1f MB", float64(2*per*ChunkRows)/1e6)},
		{"10 tokens per second", fmt.Sprintf("%.1f Mbit/s", float64(4*per*80)/1e6), fmt.Sprintf("%.1f Mbit/s", float64(2*per*80)/1e6)},
	})
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }

func (s *Shape) measured(docs string) (string, error) {
	list, err := s.Saved(docs)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "Not measured.\n", nil
	}
	var body [][]string
	var notes []string
	for _, m := range list {
		r, _ := s.Recipe(m.Recipe)
		for _, k := range s.KindList() {
			t, as, ok := m.Time(k)
			if !ok {
				return "", fmt.Errorf("shapes: %s in %s: layers of the kind %q were not measured", s.Name, m.Recipe, k)
			}
			if as != "" {
				body = append(body, []string{m.Recipe, k, "", "counts as " + as, "", "", ""})
				continue
			}
			read := s.ReadBytes(s.typical(k), r)
			body = append(body, []string{
				m.Recipe, k, fmt.Sprintf("%.0f MB", float64(read)/1e6), millis(t.Step), fmt.Sprintf("%.1f GB/s", float64(read)/float64(t.Step)),
				fmt.Sprintf("%.2f s", t.Chunk.Seconds()), fmt.Sprintf("%.0f tokens/s", ChunkRows/t.Chunk.Seconds()),
			})
		}
		all, err := m.Total(s)
		if err != nil {
			return "", err
		}
		body = append(body, []string{m.Recipe, fmt.Sprintf("**all %d layers**", s.Layers()), "", fmt.Sprintf("%.2f s", all.Step.Seconds()), "", fmt.Sprintf("%.0f s", all.Chunk.Seconds()), fmt.Sprintf("%.2f tokens/s", ChunkRows/all.Chunk.Seconds())})
		note := fmt.Sprintf("%s: %s, %s; llama.cpp %s (%s), %s, the best of at least %s.", m.Recipe, m.Date, m.Machine, m.Llama, m.CPU, plural(m.Threads, "thread"), plural(m.Runs, "run"))
		notes = append(notes, note)
	}
	return rows([]string{"recipe", "layer", "read per step", "decode step", "", fmt.Sprintf("chunk of %d", ChunkRows), ""}, body) + "\nMeasured " + strings.Join(notes, " ") + "\n", nil
}

func (s *Shape) speed(docs string) (string, error) {
	list, err := s.Saved(docs)
	if err != nil {
		return "", err
	}
	head := []string{"recipe", "nodes"}
	for _, rtt := range RoundTrips {
		head = append(head, fmt.Sprintf("tokens/s at %d ms", rtt.Milliseconds()))
	}
	head = append(head, "all sessions, nodes busy", "prompt, by computing", "prompt, by lines of 100 Mbit/s")
	var body [][]string
	for _, m := range list {
		all, err := s.Predict(m)
		if err != nil {
			return "", err
		}
		for _, p := range all {
			line := []string{m.Recipe, fmt.Sprint(p.Hops)}
			for _, t := range p.Token {
				line = append(line, fmt.Sprintf("%.2f", 1/t.Seconds()))
			}
			body = append(body, append(line, fmt.Sprintf("%.1f tokens/s", p.Busy), fmt.Sprintf("%.0f tokens/s", p.Prefill), fmt.Sprintf("%.0f tokens/s", p.Link)))
		}
	}
	if len(body) == 0 {
		return "Not measured.\n", nil
	}
	return rows(head, body), nil
}

// WriteTables rewrites the blocks of all reports in docs and says which files
// changed.
func WriteTables(docs string) ([]string, error) {
	work, err := os.MkdirTemp("", "neuron-shapes-")
	if err != nil {
		return nil, fmt.Errorf("shapes: %w", err)
	}
	defer os.RemoveAll(work) // empty: Describe removes its files
	paths, err := filepath.Glob(filepath.Join(docs, "*.md"))
	if err != nil {
		return nil, fmt.Errorf("shapes: %w", err)
	}
	var changed []string
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("shapes: %w", err)
		}
		text, err := Rewrite(string(raw), docs, work)
		if err != nil {
			return nil, err
		}
		if text == string(raw) {
			continue
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			return nil, fmt.Errorf("shapes: %w", err)
		}
		changed = append(changed, p)
	}
	return changed, nil
}
