package bench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Row is one figure of the table.
type Row struct {
	Name   string
	Figure string
	Target string // "" when the figure is for information
	OK     bool
	Note   string // absolute figures behind the ratio
}

func (r Row) verdict() string {
	switch {
	case r.Target == "":
		return ""
	case r.OK:
		return "ok"
	}
	return "below"
}

// Report is the outcome of a run.
type Report struct {
	At      time.Time
	Machine string
	Load    string // load average when the run began
	Version string
	Llama   string
	CPU     string // libllama's variant for this processor
	Model   string
	Rows    []Row

	out io.Writer
}

// atLeast adds a ratio that should not be below target.
func (r *Report) atLeast(name string, figure, target float64, note string) {
	r.add(Row{name, fmt.Sprintf("%.3f", figure), fmt.Sprintf(">= %.2f", target), figure >= target, note})
}

// atMost adds a figure that should not be above target.
func (r *Report) atMost(name string, figure, target float64, unit, note string) {
	r.add(Row{name, fmt.Sprintf("%.2f%s", figure, unit), fmt.Sprintf("<= %g%s", target, unit), figure <= target, note})
}

func (r *Report) add(row Row) {
	r.Rows = append(r.Rows, row)
	fmt.Fprintf(r.out, "%-52s %10s  %-9s %-5s  %s\n", row.Name, row.Figure, row.Target, row.verdict(), row.Note)
}

// Markdown is the table with where it comes from.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s", r.At.UTC().Format("2006-01-02 15:04 UTC"), r.Machine)
	if r.Load != "" {
		fmt.Fprintf(&b, ", load average %s before the run", r.Load)
	}
	fmt.Fprintf(&b, ". Neuron %s, llama.cpp %s (%s).\n\n", r.Version, r.Llama, r.CPU)
	b.WriteString("| figure | value | target | | behind it |\n| --- | --- | --- | --- | --- |\n")
	for _, x := range r.Rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", x.Name, x.Figure, x.Target, x.verdict(), x.Note)
	}
	return b.String()
}

// Marks around the table in a document.
const (
	markBegin = "<!-- bench: begin -->"
	markEnd   = "<!-- bench: end -->"
)

// errMarks: the document has no place for the table.
var errMarks = errors.New("document without the two bench marks")

// Rewrite puts the table between the marks of a document.
func (r *Report) Rewrite(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("performance document: %w", err)
	}
	head, rest, ok := bytes.Cut(raw, []byte(markBegin))
	_, tail, ok2 := bytes.Cut(rest, []byte(markEnd))
	if !ok || !ok2 {
		return fmt.Errorf("%w: %s", errMarks, path)
	}
	out := fmt.Sprintf("%s%s\n%s%s%s", head, markBegin, r.Markdown(), markEnd, tail)
	tmp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.WriteFile(tmp, []byte(out), 0o644); err != nil {
		return fmt.Errorf("performance document: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("performance document: %w", err)
	}
	return nil
}
