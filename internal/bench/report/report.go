// Package report holds what a run of the benchmarks found: sections of rows,
// printed as they come and written as tables into a document, and the few
// statistics that make figures of times.
//
// Only internal/bench and its parts import it. It measures nothing.
package report

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// Row is one figure of the usual kind of table.
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

// columns of a table of figures.
var columns = []string{"figure", "value", "target", "", "behind it"}

// Section is a table with a title.
type Section struct {
	Title   string
	Columns []string
	Rows    [][]string // one cell per column
}

// Report is the outcome of a run. One goroutine fills it.
type Report struct {
	At       time.Time
	Machine  string
	Load     string // load average when the run began
	Took     time.Duration
	Version  string
	Llama    string
	CPU      string // libllama's variant for this processor
	Model    string
	Sections []*Section
	// Out gets each row as it comes.
	Out io.Writer

	now *Section
}

// Section makes rows go to the section of that title from now on, which begins
// with the first call. Without column names it is a table of figures.
func (r *Report) Section(title string, names ...string) {
	for _, s := range r.Sections {
		if s.Title == title {
			r.now = s
			return
		}
	}
	if len(names) == 0 {
		names = columns
	}
	r.now = &Section{Title: title, Columns: names}
	r.Sections = append(r.Sections, r.now)
	fmt.Fprintf(r.Out, "## %s\n", title)
	r.print(names)
}

// AtLeast adds a ratio that should not be below target.
func (r *Report) AtLeast(name string, figure, target float64, note string) {
	r.Add(Row{name, fmt.Sprintf("%.3f", figure), fmt.Sprintf(">= %.2f", target), figure >= target, note})
}

// AtMost adds a figure that should not be above target.
func (r *Report) AtMost(name string, figure, target float64, unit, note string) {
	r.Add(Row{name, fmt.Sprintf("%.2f%s", figure, unit), fmt.Sprintf("<= %g%s", target, unit), figure <= target, note})
}

// Add adds a figure.
func (r *Report) Add(row Row) {
	r.Cells(row.Name, row.Figure, row.Target, row.verdict(), row.Note)
}

// Cells adds a row to a section with columns of its own; a cell per column.
func (r *Report) Cells(cells ...string) {
	r.now.Rows = append(r.now.Rows, cells)
	r.print(cells)
}

// print writes the first cell wide and the others as they fit.
func (r *Report) print(cells []string) {
	var b strings.Builder
	for i, c := range cells {
		width := 10
		if i == 0 {
			width = 68
		}
		b.WriteString(c)
		b.WriteString(strings.Repeat(" ", 2+max(0, width-utf8.RuneCountInString(c))))
	}
	fmt.Fprintln(r.Out, strings.TrimRight(b.String(), " "))
}

// Markdown is the tables with where they come from.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s", r.At.UTC().Format("2006-01-02 15:04 UTC"), r.Machine)
	if r.Load != "" {
		fmt.Fprintf(&b, ", load average %s before the run", r.Load)
	}
	if r.Took > 0 {
		fmt.Fprintf(&b, ", in %.1f minutes", r.Took.Minutes())
	}
	fmt.Fprintf(&b, ". Neuron %s, llama.cpp %s (%s).\n", r.Version, r.Llama, r.CPU)
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n### %s\n\n", s.Title)
		line(s.Columns)
		line(strings.Split(strings.TrimSuffix(strings.Repeat("--- ", len(s.Columns)), " "), " "))
		for _, row := range s.Rows {
			line(row)
		}
	}
	return b.String()
}

// Marks around the tables in a document.
const (
	markBegin = "<!-- bench: begin -->"
	markEnd   = "<!-- bench: end -->"
)

// errMarks: the document has no place for the tables.
var errMarks = errors.New("document without the two bench marks")

// Rewrite puts the tables between the marks of a document.
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
