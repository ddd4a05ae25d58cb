package archs

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"neuron/llama/gguf"
)

// spec is one line of the table. Keys and tensors are texts, because a table of 130
// families has to be read at a glance.
type spec struct {
	name string // as Model.Name
	kind string
	// with is a list of entries "key=value", without the architecture's prefix; they
	// go over those of base and of the parts in front, "-key" takes one away, and a key
	// that begins with a slash gets no prefix.
	// Whole numbers are u32, numbers with a point f32, [..] arrays, [..]*n repeated
	// ones, 'text' strings.
	with string
	// has lists the tensors that the architecture may have and this model does have:
	// "output.weight"; "*.attn_q.bias" in every layer; "3-7.ffn_gate_inp.weight" or
	// "0,2,6.indexer.proj.weight" in some.
	has string
	// mtp, when the model has a layer that only predicts further tokens, is
	// "7: nextn.eh_proj.weight ...": which layer it looks like, and what it has besides.
	mtp string
}

// base is what nearly every family has.
const base = `context_length=4096 embedding_length=256 block_count=8 feed_forward_length=512
	attention.head_count=4 attention.head_count_kv=2 rope.freq_base=10000.0 attention.layer_norm_rms_epsilon=0.000001`

func (s spec) arch() string {
	a, _, _ := strings.Cut(s.name, "/")
	return a
}

func (s spec) model() Model {
	m := Model{Name: s.name, Arch: s.arch(), Kind: s.kind}
	if kvs, err := s.keys(); err == nil { // a test parses the whole table
		m.Layers = number(kvs, "block_count") - number(kvs, "nextn_predict_layers")
	}
	return m
}

// keys gives the entries in the order in which they first stand.
func (s spec) keys() ([]gguf.KV, error) {
	var order []string
	values := map[string]string{}
	for _, field := range fields(base + " " + s.with) {
		if key, ok := strings.CutPrefix(field, "-"); ok {
			if _, there := values[key]; !there {
				return nil, fmt.Errorf("nothing to take away with -%s", key)
			}
			delete(values, key)
			continue
		}
		key, value, ok := strings.Cut(field, "=")
		if !ok || key == "" || value == "" {
			return nil, fmt.Errorf("not an entry: %q", field)
		}
		if _, again := values[key]; !again {
			order = append(order, key)
		}
		values[key] = value
	}
	var kvs []gguf.KV
	for _, key := range order {
		text, ok := values[key]
		if !ok {
			continue
		}
		delete(values, key) // taken away and set again it would stand twice
		v, err := parseValue(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		kvs = append(kvs, gguf.KV{Key: key, Value: v})
	}
	return kvs, nil
}

// fields splits at spaces outside of quotes.
func fields(text string) []string {
	quoted := false
	return strings.FieldsFunc(text, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\n' || r == '\t')
	})
}

func parseValue(text string) (gguf.Value, error) {
	switch {
	case text == "true" || text == "false":
		return gguf.Bool(text == "true"), nil
	case text[0] == '\'':
		return gguf.String(strings.Trim(text, "'")), nil
	case text[0] == '[':
		return parseArray(text)
	case strings.ContainsRune(text, '.'):
		f, err := strconv.ParseFloat(text, 32)
		return gguf.F32(float32(f)), err
	}
	n, err := strconv.ParseUint(text, 10, 32)
	return gguf.U32(uint32(n)), err
}

func parseArray(text string) (gguf.Value, error) {
	body, times, _ := strings.Cut(text[1:], "]")
	n := 1
	if times != "" {
		var err error
		if n, err = strconv.Atoi(strings.TrimPrefix(times, "*")); err != nil || n < 1 {
			return gguf.Value{}, fmt.Errorf("array %q", text)
		}
	}
	wide := strings.HasPrefix(body, "u64:")
	items := strings.Split(strings.TrimPrefix(body, "u64:"), ",")
	var ints []int32
	var longs []uint64
	var floats []float32
	for range n {
		for _, item := range items {
			f, err := strconv.ParseFloat(item, 64)
			if err != nil {
				return gguf.Value{}, fmt.Errorf("array %q: %w", text, err)
			}
			ints, floats, longs = append(ints, int32(f)), append(floats, float32(f)), append(longs, uint64(math.Abs(f)))
		}
	}
	switch {
	case wide:
		return gguf.U64s(longs), nil
	case strings.ContainsRune(body, '.'):
		return gguf.F32s(floats), nil
	}
	return gguf.I32s(ints), nil
}

// number gives a whole number among the entries, 0 without it.
func number(kvs []gguf.KV, key string) int {
	for _, kv := range kvs {
		if n, ok := kv.Value.Uint(); ok && kv.Key == key {
			return int(n)
		}
	}
	return 0
}

func (s spec) number(kvs []gguf.KV, key string) int { return number(kvs, s.arch()+"."+key) }

// listed gives the names of the tensors in has, for a model of that many layers.
func (s spec) listed(layers int) ([]string, error) {
	var names []string
	for _, item := range strings.Fields(s.has) {
		where, rest, _ := strings.Cut(item, ".")
		if !layered(where) {
			names = append(names, item)
			continue
		}
		in, err := layersOf(where, layers)
		if err != nil {
			return nil, err
		}
		for _, i := range in {
			names = append(names, fmt.Sprintf("blk.%d.%s", i, rest))
		}
	}
	return names, nil
}

func layered(where string) bool {
	return where == "*" || where[0] >= '0' && where[0] <= '9'
}

// layersOf reads "*", "3", "0-2" and lists of them.
func layersOf(where string, layers int) ([]int, error) {
	if where == "*" {
		where = "0-" + strconv.Itoa(layers-1)
	}
	var out []int
	for _, part := range strings.Split(where, ",") {
		lo, hi, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(lo)
		last := first
		if err == nil && isRange {
			last, err = strconv.Atoi(hi)
		}
		if err != nil || first > last || last >= layers {
			return nil, fmt.Errorf("layers %q of %d", where, layers)
		}
		for i := first; i <= last; i++ {
			out = append(out, i)
		}
	}
	return out, nil
}
