package numeric

import (
	"cmp"
	"math"
	"slices"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

// Line sums the audits of one model in which a class of audited nodes was
// re-executed by a class of auditors. Distances of different lines cannot be
// compared: calibration is per line.
type Line struct {
	Model   protocol.ModelID    `json:"model"`
	Name    string              `json:"name"`
	Basis   auditmsg.AuditBasis `json:"basis"`
	Node    auditmsg.AuditClass `json:"node"`
	Auditor auditmsg.AuditClass `json:"auditor"`
	Audits  int                 `json:"audits"`
	Rows    int                 `json:"rows"`
	Proven  int                 `json:"proven"`
	// Median and Max are percentiles over the audits of their median and of
	// their largest distance.
	Median Percentiles `json:"median"`
	Max    Percentiles `json:"max"`
}

// Percentiles of a list of figures.
type Percentiles struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

type lineKey struct {
	model         protocol.ModelID
	basis         auditmsg.AuditBasis
	node, auditor auditmsg.AuditClass
}

// Summary sums records with measures, by model and pair of classes.
func Summary(records []Record) []Line {
	lines := map[lineKey]*Line{}
	medians, maxima := map[lineKey][]float64{}, map[lineKey][]float64{}
	for i := range records {
		r := &records[i]
		if r.Measures == nil {
			continue
		}
		m := r.Measures
		k := lineKey{r.Model, m.Basis, r.Class, m.Class}
		l := lines[k]
		if l == nil {
			l = &Line{Model: r.Model, Name: r.Name, Basis: m.Basis, Node: r.Class, Auditor: m.Class}
			lines[k] = l
		}
		l.Audits++
		l.Rows += m.Rows
		l.Proven += m.Proven
		medians[k], maxima[k] = append(medians[k], m.Median), append(maxima[k], m.Max)
	}
	out := make([]Line, 0, len(lines))
	for k, l := range lines {
		l.Median, l.Max = percentiles(medians[k]), percentiles(maxima[k])
		out = append(out, *l)
	}
	slices.SortFunc(out, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Basis, b.Basis),
			compareClass(a.Node, b.Node), compareClass(a.Auditor, b.Auditor))
	})
	return out
}

func compareClass(a, b auditmsg.AuditClass) int {
	return cmp.Or(cmp.Compare(a.CPU, b.CPU), cmp.Compare(a.Threads, b.Threads), cmp.Compare(a.Llama, b.Llama), cmp.Compare(a.Engine, b.Engine))
}

// percentiles are the nearest ranks of v, which is not empty and gets sorted.
func percentiles(v []float64) Percentiles {
	slices.Sort(v)
	at := func(q float64) float64 { return v[max(int(math.Ceil(q*float64(len(v))))-1, 0)] }
	return Percentiles{P50: at(.5), P90: at(.9), P99: at(.99), Max: at(1)}
}

// Failures counts records without measures by their code.
func Failures(records []Record) map[protocol.Code]int {
	out := map[protocol.Code]int{}
	for i := range records {
		if e := records[i].Error; e != nil {
			out[e.Code]++
		}
	}
	return out
}
