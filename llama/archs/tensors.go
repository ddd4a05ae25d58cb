package archs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"neuron/llama"
	"neuron/llama/gguf"
)

// tensors gives name, size and type (F32 but for tables of ids) of all tensors of the
// model, in the order in which libllama makes them.
//
// libllama is asked: it makes the model from the metadata and shows each tensor. It
// wants a list as long as what it makes, and says in its refusal how long that is, so
// the list is first too short and then filled up with names that mean nothing.
func (s spec) tensors(kvs []gguf.KV) ([]gguf.TensorInfo, error) {
	layers := s.model().Layers
	names, err := s.listed(layers)
	if err != nil {
		return nil, err
	}
	trunk := s.trunk(kvs, layers)
	made, n, err := ask(trunk, names)
	if n > len(names) {
		for i := len(names); i < n; i++ {
			names = append(names, fmt.Sprintf("unnamed.%d", i))
		}
		made, _, err = ask(trunk, names)
	}
	if err != nil {
		return nil, err
	}
	return s.predicting(made, layers, s.number(kvs, "embedding_length"))
}

// trunk gives the metadata without layers that only predict: libllama makes those in
// ways that depend on the file it reads.
func (s spec) trunk(kvs []gguf.KV, layers int) []gguf.KV {
	prefix := s.arch() + "."
	all := s.number(kvs, "block_count")
	if all == layers {
		return kvs
	}
	var out []gguf.KV
	for _, kv := range kvs {
		switch key := strings.TrimPrefix(kv.Key, prefix); {
		case key == "nextn_predict_layers":
			continue
		case key == "block_count":
			kv.Value = gguf.U32(uint32(layers))
		case kv.Value.Type() == gguf.ValueArray && kv.Value.Len() == all && strings.HasPrefix(kv.Key, prefix):
			if v, err := kv.Value.Slice(0, layers); err == nil {
				kv.Value = v
			}
		}
		out = append(out, kv)
	}
	return out
}

// predicting adds the layers that only predict: each a copy of a layer of the trunk,
// with the tensors that combine it with the trunk.
func (s spec) predicting(trunk []gguf.TensorInfo, layers, width int) ([]gguf.TensorInfo, error) {
	like, extra, ok := strings.Cut(s.mtp, ":")
	if !ok {
		return trunk, nil
	}
	from := "blk." + like + "."
	to := fmt.Sprintf("blk.%d.", layers)
	out, seen := trunk, false
	for _, t := range trunk {
		if rest, ok := strings.CutPrefix(t.Name, from); ok {
			seen = true
			t.Name = to + rest
			out = append(out, t)
		}
	}
	if !seen {
		return nil, fmt.Errorf("no layer %q to predict with", like)
	}
	for _, name := range strings.Fields(extra) {
		dims := []uint64{uint64(width)}
		if name == "nextn.eh_proj.weight" {
			dims = []uint64{2 * uint64(width), uint64(width)}
		}
		out = append(out, gguf.TensorInfo{Name: to + name, Dims: dims, Type: gguf.TypeF32})
	}
	return out, nil
}

// counted is how libllama refuses a list of another length than the tensors it made.
var counted = regexp.MustCompile(`expected (\d+), got (\d+)`)

// ask has libllama make a model of the metadata and of the listed tensors. When only
// the length of the list was wrong, n is the right one.
func ask(kvs []gguf.KV, names []string) (made []gguf.TensorInfo, n int, err error) {
	list := make([]gguf.TensorInfo, len(names))
	for i, name := range names {
		list[i] = gguf.TensorInfo{Name: name, Dims: []uint64{1}, Type: typeOf(name)}
	}
	head, err := gguf.EncodeHeader(kvs, list, gguf.WriteOptions{})
	if err != nil {
		return nil, 0, err
	}
	dir, err := os.MkdirTemp("", "neuron-archs-")
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "list.gguf")
	if err := os.WriteFile(path, head, 0o600); err != nil {
		return nil, 0, err
	}
	g, err := llama.GGUFOpen(path)
	if err != nil {
		return nil, 0, err
	}
	defer g.Free()
	seen := map[string]bool{}
	m, err := llama.InitModel(g, func(t llama.Tensor) {
		name := t.Name()
		if seen[name] { // libllama keeps copies of some, next to what uses them
			return
		}
		seen[name] = true
		made = append(made, gguf.TensorInfo{Name: name, Dims: dims(t), Type: gguf.Type(t.Type())})
	}, llama.ModelParams{})
	if err != nil {
		if found := counted.FindStringSubmatch(err.Error()); found != nil {
			want, _ := strconv.Atoi(found[2]) // digits by the expression
			if have, _ := strconv.Atoi(found[1]); want < have {
				return nil, 0, fmt.Errorf("%d of the listed tensors do not exist: %w", have-want, err)
			}
			n = want
		}
		return nil, n, err
	}
	m.Free()
	return made, 0, nil
}

// typeOf is the type that a tensor must be made with: numbers, but for a table of ids.
func typeOf(name string) gguf.Type {
	if strings.HasSuffix(name, "ffn_gate_tid2eid.weight") {
		return gguf.TypeI32
	}
	return gguf.TypeF32
}

// dims leaves the trailing ones out, as files do, but for the first size.
func dims(t llama.Tensor) []uint64 {
	d := t.Dims()
	n := len(d)
	for n > 1 && d[n-1] == 1 {
		n--
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = uint64(d[i])
	}
	return out
}
