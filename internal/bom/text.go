package bom

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

const rule = "--------------------------------------------------------------------------------"

// WriteText writes the licences of all parts for people: a list, then every text
// once with the parts that it belongs to. The same input gives the same bytes.
func (d *Delivery) WriteText(to io.Writer) error {
	w := bufio.NewWriter(to)
	fmt.Fprintf(w, "%s is under the Apache License 2.0; its text is in the file LICENSE.\nIt contains work of others, under the licences below. The source of a Go module\nis at https://proxy.golang.org/PATH/@v/VERSION.zip.\n\n", strings.ToUpper(d.Name[:1])+d.Name[1:])
	type text struct {
		body string
		of   []string
	}
	var texts []text
	add := func(part string, ls []Licence) {
		for _, l := range ls {
			body := strings.TrimSpace(l.Text)
			if body == "" {
				continue
			}
			i := slices.IndexFunc(texts, func(t text) bool { return t.body == body })
			if i < 0 {
				i = len(texts)
				texts = append(texts, text{body: body})
			}
			who := part
			if strings.Contains(l.Name, "/") {
				who += " (" + l.Name + ")"
			}
			if !slices.Contains(texts[i].of, who) {
				texts[i].of = append(texts[i].of, who)
			}
		}
	}
	for _, p := range d.Parts {
		fmt.Fprintf(w, "%s %s: %s (%s)\n", p.Name, p.Version, strings.Join(kinds(p.Licences), ", "), p.Note)
		add(p.Name, p.Licences)
	}
	for _, m := range d.Modules {
		fmt.Fprintf(w, "%s %s: %s (%s)\n", m.Path, m.Version, strings.Join(kinds(m.Licences), ", "), strings.Join(m.Programs, ", "))
		add(m.Path, m.Licences)
	}
	for _, t := range texts {
		fmt.Fprintf(w, "\n%s\n%s\n%s\n\n%s\n", rule, strings.Join(t.of, "\n"), rule, t.body)
	}
	return w.Flush()
}
