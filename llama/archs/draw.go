package archs

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math"
	"strings"

	"neuron/llama"
	"neuron/llama/gguf"
)

// logitStd is the spread of the logits before a family scales or bounds them: the best
// token then leads the second by far more than rounding moves either.
const logitStd = 4

// drawer draws the weights. Matrices have the spread 1/sqrt(row length), so that each
// maps a vector of unit spread to one of unit spread, and norms lie around 1, so that
// activations neither vanish nor explode in any family.
type drawer struct {
	seed    uint64
	want    gguf.Type
	experts int
	tied    bool // the embedding is the output matrix too
	// lastNorm is the norm after the last layer; one family calls it the embedding's.
	lastNorm string
}

func (d *drawer) write(path string, kvs []gguf.KV, tensors []gguf.TensorInfo) error {
	d.tied, d.lastNorm = true, "token_embd_norm.weight"
	for _, t := range tensors {
		switch t.Name {
		case "output.weight":
			d.tied = false
		case "output_norm.weight":
			d.lastNorm = t.Name
		}
	}
	stored := make([]gguf.TensorInfo, len(tensors))
	for i, t := range tensors {
		stored[i] = t
		stored[i].Type = d.typeFor(t)
	}
	data := func(i int, w io.Writer) error {
		b, err := d.bytes(stored[i])
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	}
	return gguf.WriteFile(path, kvs, stored, data, gguf.WriteOptions{})
}

// small are parts of the names of matrices that published files keep in full precision:
// they are tiny or steer others.
var small = []string{
	"norm", "ffn_gate_inp", "tid2eid", "altup", "laurel", "per_layer_model_proj", "position_embd", "conv1d", "shortconv.conv",
	"indexer.k_proj", "indexer.q_proj", "time_mix_first", "time_mix_w", "time_mix_v0", "time_mix_v1", "time_mix_v2", "time_mix_a",
	"time_mix_g1", "time_mix_g2", "time_mix_decay_w", "time_mix_lerp", "_ape", "hc_", "ssm_a", "ssm_d",
}

// typeFor says how a tensor is stored: a matrix as wanted, or as the nearest kin whose
// blocks divide its rows.
func (d *drawer) typeFor(t gguf.TensorInfo) gguf.Type {
	if t.Type != gguf.TypeF32 || len(t.Dims) < 2 || !strings.HasSuffix(t.Name, ".weight") {
		return t.Type
	}
	for _, part := range small {
		if strings.Contains(t.Name, part) && !strings.HasSuffix(t.Name, "ssm_dt.weight") {
			return gguf.TypeF32
		}
	}
	for _, typ := range []gguf.Type{d.want, gguf.TypeQ5_0} {
		if typ.BlockSize() != 0 && t.Dims[0]%typ.BlockSize() == 0 {
			return typ
		}
	}
	return gguf.TypeF16
}

func (d *drawer) bytes(t gguf.TensorInfo) ([]byte, error) {
	n, err := t.Elements()
	if err != nil {
		return nil, err
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, t.Name) // a hash never fails
	r := &source{state: h.Sum64() ^ d.seed*0x9e3779b97f4a7c15}
	if t.Type == gguf.TypeI32 {
		return d.ids(t, r)
	}
	values := make([]float32, n)
	d.draw(t, r, values)
	return llama.QuantizeRows(uint32(t.Type), values, int(t.Dims[0]))
}

// ids fills a table that says for each token which experts it goes to: different ones.
func (d *drawer) ids(t gguf.TensorInfo, r *source) ([]byte, error) {
	if len(t.Dims) != 2 || t.Dims[0] > uint64(d.experts) {
		return nil, fmt.Errorf("%s of %v for %d experts", t.Name, t.Dims, d.experts)
	}
	var out []byte
	for range t.Dims[1] {
		at, step := r.next()%uint64(d.experts), uint64(0)
		for range t.Dims[0] {
			out = binary.LittleEndian.AppendUint32(out, uint32((at+step)%uint64(d.experts)))
			step++
		}
	}
	return out, nil
}

// draw fills values by what the tensor is for. The first rule that fits counts.
func (d *drawer) draw(t gguf.TensorInfo, r *source, values []float32) {
	name := t.Name
	if rest, ok := strings.CutPrefix(name, "blk."); ok {
		_, name, _ = strings.Cut(rest, ".")
	}
	is := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(name, p) {
				return true
			}
		}
		return false
	}
	row := 1 / math.Sqrt(float64(t.Dims[0]))
	switch {
	case name == "rope_freqs.weight" || is("rope_factors"):
		// Divisors of the rotary frequencies: 1 for the fast ones, up to 8 for the slow.
		for i := range values {
			values[i] = float32(1 + 7*float64(i)/float64(len(values)))
		}
	case d.tied && name == d.lastNorm:
		// A tied embedding keeps the logits small; the last norm then brings their spread,
		// with signs at random, or the input's own token would always win.
		r.normal(values, 0, logitStd)
	case is("ssm_a") && !is("ssm_alpha"): // a decay, negative in every family
		r.uniform(values, -2, -0.1)
	case is("ssm_dt.bias"):
		r.normal(values, -2, 0.5)
	case name == "ssm_d":
		r.normal(values, 1, 0.1)
	case is("time_mix_lerp", "channel_mix_lerp"):
		r.uniform(values, 0, 1)
	case name == "time_mix_decay.weight" || name == "time_mix_w0.weight":
		r.normal(values, -1, 0.5)
	case is("time_mix_k_k", "time_mix_k_a"):
		r.normal(values, 0.9, 0.1)
	case is("time_mix_first", "time_mix_r_k", "time_mix_a0", "time_mix_v0"):
		r.normal(values, 0, 0.3)
	case strings.HasSuffix(name, ".bias") || is("exp_probs_b"):
		r.normal(values, 0, 0.1)
	case is("attn_sinks"):
		r.normal(values, 0, 1)
	case is("hc_attn_base", "hc_ffn_base", "hc_base", "_ape", "position_embd"):
		r.normal(values, 0, 0.3)
	case is("norm", "scale", "time_mix_ln"):
		r.normal(values, 1, 0.1)
	case is("ffn_gate_inp"): // experts must be chosen clearly, and not all the same
		r.normal(values, 0, 2*row)
	case is("token_embd") && !d.tied, is("per_layer_token_embd"):
		r.normal(values, 0, 1)
	case name == "output.weight":
		r.normal(values, 0, logitStd*row)
	default: // a matrix, or a vector that maps to one number
		r.normal(values, 0, row)
	}
}

// source is SplitMix64 (Steele, Lea and Flood 2014).
type source struct{ state uint64 }

func (r *source) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// normal draws nearly normal numbers, each the sum of four uniform ones. Only exact
// operations, and conversions that keep compilers from fusing a multiplication with an
// addition: every platform draws the same.
func (r *source) normal(values []float32, mean, std float64) {
	for i := range values {
		x := r.next()
		sum := int64(x&0xffff) + int64(x>>16&0xffff) + int64(x>>32&0xffff) + int64(x>>48)
		z := float64(sum-131070) * (1 / 37837.22723720648) // mean 4*32767.5, variance 4*(2^32-1)/12
		values[i] = float32(mean + float64(std*z))
	}
}

func (r *source) uniform(values []float32, low, high float64) {
	for i := range values {
		values[i] = float32(low + float64((high-low)*(float64(r.next()>>11)/(1<<53))))
	}
}
