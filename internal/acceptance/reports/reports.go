// Package reports is acceptance criterion AC-12: a support report exists for each
// of the large models, says what it has to say, and its figures are those that
// the code computes now. Package acceptance runs it; nothing else imports it.
package reports

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"neuron/internal/shapes"
)

// report is a file of the folder and the models that it answers for.
type report struct {
	file   string
	shapes []string
}

var all = []report{
	{"deepseek-v4-flash.md", []string{"deepseek-v4-flash"}},
	{"glm-5.2.md", []string{"glm-5.2"}},
	{"ornith.md", []string{"ornith-9b", "ornith-35b", "ornith-397b"}},
}

// sections that each report has, in this order.
var sections = []string{
	"Recommendation", "Sizes", "KV memory", "Nodes and ranges", "Seams", "Measured layers", "Route speed", "Known upstream bugs", "What we need upstream", "Sources",
}

// answers are what a recommendation may say, in its first words.
var answers = []string{"PyTorch", "vLLM/SGLang", "llama.cpp/GGUF", "blocked"}

// leastProse is how many words a section has beside its tables.
const leastProse = 15

// hook is a link to a patch description, from the reports' folder.
var hook = regexp.MustCompile(`\]\((\.\./upstream/[a-z0-9-]+\.md)\)`)

// comment is a marker of a table.
var comment = regexp.MustCompile(`(?s)<!--.*?-->`)

// Check runs the criterion on the reports in docs (docs/models) and returns its
// figure.
func Check(ctx context.Context, docs string) (string, error) {
	work, err := os.MkdirTemp("", "neuron-reports-")
	if err != nil {
		return "", fmt.Errorf("folder: %w", err)
	}
	defer os.RemoveAll(work) // what is in it is made again
	tables, measured := 0, 0
	hooks := map[string]bool{}
	for _, r := range all {
		if err := context.Cause(ctx); err != nil {
			return "", err
		}
		raw, err := os.ReadFile(filepath.Join(docs, r.file))
		if err != nil {
			return "", fmt.Errorf("report: %w", err)
		}
		text := string(raw)
		n, err := r.check(text, docs, work)
		if err != nil {
			return "", fmt.Errorf("%s: %w", r.file, err)
		}
		tables += n
		for _, name := range r.shapes {
			s, err := shapes.Find(name)
			if err != nil {
				return "", err
			}
			list, err := s.Saved(docs)
			if err != nil {
				return "", err
			}
			for _, m := range list {
				if m.Date == "" || m.Machine == "" || m.Llama == "" || len(m.Layers) == 0 {
					return "", fmt.Errorf("%s: the measurement in %s does not say when and where", r.file, m.Recipe)
				}
				measured += len(m.Layers)
			}
		}
		for _, m := range hook.FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(docs, m[1])); err != nil {
				return "", fmt.Errorf("%s: %w", r.file, err)
			}
			hooks[m[1]] = true
		}
	}
	return fmt.Sprintf("%d reports, %d tables equal to what is computed now, %d measured groups of layers, %d patch descriptions", len(all), tables, measured, len(hooks)), nil
}

// check holds one report against what it must say; it returns how many tables it
// has.
func (r report) check(text, docs, work string) (int, error) {
	if err := checkSections(text); err != nil {
		return 0, err
	}
	first := strings.TrimSpace(section(text, sections[0]))
	if !slices.ContainsFunc(answers, func(a string) bool { return strings.HasPrefix(first, "**"+a) }) {
		return 0, fmt.Errorf("the recommendation begins with none of %s", strings.Join(answers, ", "))
	}
	if !hook.MatchString(section(text, "What we need upstream")) {
		return 0, fmt.Errorf("no patch description is named")
	}
	blocks := shapes.Blocks(text)
	for _, name := range r.shapes {
		for _, kind := range shapes.Tables {
			if !slices.Contains(blocks, kind+" "+name) {
				return 0, fmt.Errorf("no table %q of %s", kind, name)
			}
		}
	}
	now, err := shapes.Rewrite(text, docs, work)
	if err != nil {
		return 0, err
	}
	if now != text {
		return 0, fmt.Errorf("its tables are not what is computed now, from %q on; run: go run ./internal/cmd/shapes tables", firstDifference(text, now))
	}
	return len(blocks), nil
}

// checkSections wants all sections in order, each with some words of its own.
func checkSections(text string) error {
	at := 0
	for _, name := range sections {
		i := strings.Index(text[at:], "\n## "+name+"\n")
		if i < 0 {
			return fmt.Errorf("there is no section %q behind the ones before it", name)
		}
		at += i
		words := 0
		for _, line := range strings.Split(comment.ReplaceAllString(section(text, name), ""), "\n") {
			if !strings.HasPrefix(line, "|") {
				words += len(strings.Fields(line))
			}
		}
		if words < leastProse {
			return fmt.Errorf("the section %q says nothing", name)
		}
	}
	return nil
}

// section is the text of a section, "" without it.
func section(text, name string) string {
	_, rest, ok := strings.Cut(text, "\n## "+name+"\n")
	if !ok {
		return ""
	}
	body, _, _ := strings.Cut(rest, "\n## ")
	return body
}

// firstDifference is the first line that differs.
func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range x {
		if i >= len(y) || x[i] != y[i] {
			return x[i]
		}
	}
	return ""
}
