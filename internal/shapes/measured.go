package shapes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// ChunkRows is the chunk that is measured and computed with.
const ChunkRows = 512

// LayerTime is what a layer takes.
type LayerTime struct {
	Step  time.Duration `json:"step_ns"`  // a decode step of one row
	Chunk time.Duration `json:"chunk_ns"` // a chunk of ChunkRows rows
	// KV is the KV memory that the library took for 4,096 cells, KVComputed what
	// Shape.KV says of them, in bytes.
	KV         int64 `json:"kv"`
	KVComputed int64 `json:"kv_computed"`
}

// Plus is both layers.
func (t LayerTime) Plus(o LayerTime) LayerTime {
	return LayerTime{t.Step + o.Step, t.Chunk + o.Chunk, t.KV + o.KV, t.KVComputed + o.KVComputed}
}

// Minus is what is left of t without o.
func (t LayerTime) Minus(o LayerTime) LayerTime {
	return LayerTime{t.Step - o.Step, t.Chunk - o.Chunk, t.KV - o.KV, t.KVComputed - o.KVComputed}
}

// Over is one of n equal layers.
func (t LayerTime) Over(n int) LayerTime {
	return LayerTime{t.Step / time.Duration(n), t.Chunk / time.Duration(n), t.KV / int64(n), t.KVComputed / int64(n)}
}

// Measured are the times of one recipe's layers on one machine.
type Measured struct {
	Recipe  string `json:"recipe"`
	Date    string `json:"date"`
	Machine string `json:"machine"`
	Llama   string `json:"llama"`
	CPU     string `json:"cpu"`
	Threads int    `json:"threads"`
	Runs    int    `json:"runs"` // of which the best counts, at least
	// Layers are by kind.
	Layers map[string]LayerTime `json:"layers"`
}

// Group is a model of a few layers that is timed together: Times layers of Kind
// and one each of Known, which were measured before.
type Group struct {
	Layers []int
	Kind   string
	Times  int
	Known  []string
}

// Groups says how the kinds of a shape's layers are measured. The library insists
// on layers of some kinds in each model (docs/upstream), so not every kind can
// stand alone; a kind that has no group costs what like says.
func (s *Shape) Groups() []Group {
	switch s.Arch {
	case "deepseek4":
		return []Group{{[]int{4}, KindCSA, 1, nil}, {[]int{4, 5}, KindHCA, 1, []string{KindCSA}}}
	case "glm-dsa":
		return []Group{{[]int{6}, KindMoEFull, 1, nil}, {[]int{6, 7}, KindMoEShared, 1, []string{KindMoEFull}}, {[]int{0}, KindDenseFull, 1, nil}}
	}
	// a + r, then a + 3 r: the recurrent layer is half the difference.
	return []Group{{[]int{0, 3}, kindPair, 1, nil}, {[]int{0, 1, 2, 3}, KindRecurrent, 2, []string{kindPair}}}
}

// kindPair is one attention and one recurrent layer.
const kindPair = "attention and recurrent"

// like says as what a kind counts that was not measured: one that computes the
// same and a little more, or (the three dense layers of 78) reads nearly as much.
var like = map[string]string{KindWindow: KindHCA, KindMoEShared: KindMoEFull, KindDenseFull: KindMoEFull}

// Time is what a layer of a kind takes; as names the kind that it was taken from
// when it was not measured itself.
func (m *Measured) Time(kind string) (t LayerTime, as string, ok bool) {
	if kind == KindAttention {
		pair, ok := m.Layers[kindPair]
		r, both := m.Layers[KindRecurrent]
		return pair.Minus(r), "", ok && both
	}
	if t, ok = m.Layers[kind]; !ok {
		as = like[kind]
		t, ok = m.Layers[as]
	}
	return t, as, ok
}

// Total is a whole model's layers, one after the other.
func (m *Measured) Total(s *Shape) (LayerTime, error) {
	var sum LayerTime
	for _, k := range s.Kinds {
		t, _, ok := m.Time(k)
		if !ok {
			return sum, fmt.Errorf("shapes: %s in %s: no time for layers of the kind %q", s.Name, m.Recipe, k)
		}
		sum = sum.Plus(t)
	}
	return sum, nil
}

// measuredDir is where measurements lie, below the folder of the reports.
const measuredDir = "measured"

func (s *Shape) measuredPath(dir, recipe string) string {
	return filepath.Join(dir, measuredDir, s.Name+"-"+strings.ToLower(recipe)+".json")
}

// Save keeps a measurement for the reports in dir.
func (s *Shape) Save(dir string, m *Measured) error {
	raw, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return fmt.Errorf("shapes: %w", err)
	}
	path := s.measuredPath(dir, m.Recipe)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("shapes: %w", err)
	}
	if err := os.WriteFile(path, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("shapes: %w", err)
	}
	return nil
}

// Saved reads the measurements of a shape that the reports in dir have, in the
// order of Recipes.
func (s *Shape) Saved(dir string) ([]*Measured, error) {
	paths, err := filepath.Glob(filepath.Join(dir, measuredDir, s.Name+"-*.json"))
	if err != nil {
		return nil, fmt.Errorf("shapes: %w", err)
	}
	order := map[string]int{}
	for i, r := range s.Recipes() {
		order[r.Name] = i
	}
	var out []*Measured
	for _, p := range paths {
		raw, err := os.ReadFile(p)
		if err != nil {
			return nil, fmt.Errorf("shapes: %w", err)
		}
		m := new(Measured)
		if err := json.Unmarshal(raw, m); err != nil {
			return nil, fmt.Errorf("shapes: %s: %w", p, err)
		}
		if _, ok := order[m.Recipe]; !ok {
			return nil, fmt.Errorf("shapes: %s: %s is not stored in %q", p, s.Name, m.Recipe)
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b *Measured) int { return cmp.Compare(order[a.Recipe], order[b.Recipe]) })
	return out, nil
}
