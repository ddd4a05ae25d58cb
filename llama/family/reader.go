package family

import (
	"fmt"
	"slices"

	"neuron/llama/gguf"
)

// reader picks typed values out of hostile metadata and keeps the first error.
type reader struct {
	h    *gguf.Header
	arch string
	err  error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: "+format, append([]any{ErrModel}, args...)...)
	}
}

func (r *reader) text(key string) string {
	v, ok := r.h.Get(key)
	if !ok {
		return ""
	}
	s, _ := v.Str()
	return s
}

// size reads a required integer of the architecture's own keys.
func (r *reader) size(key string, least, most int) int {
	v, ok := r.h.Get(r.arch + "." + key)
	if !ok {
		r.fail("%s.%s is missing", r.arch, key)
		return least
	}
	n, ok := v.Int()
	if !ok || n < int64(least) || n > int64(most) {
		r.fail("%s.%s is not a whole number from %d to %d", r.arch, key, least, most)
		return least
	}
	return int(n)
}

func (r *reader) optional(key string, def, most int) int {
	if _, ok := r.h.Get(r.arch + "." + key); !ok {
		return def
	}
	return r.size(key, 0, most)
}

// perLayer reads a scalar or an array of n entries; def stands in when the key
// is absent, and a nil def makes it required.
func (r *reader) perLayer(key string, n int, def []int, most int64) []int {
	v, ok := r.h.Get(r.arch + "." + key)
	if !ok {
		if def == nil {
			r.fail("%s.%s is missing", r.arch, key)
			return make([]int, n)
		}
		return def
	}
	out := make([]int, n)
	if list, ok := v.Ints(); ok {
		if len(list) < n {
			r.fail("%s.%s has %d entries for %d layers", r.arch, key, len(list), n)
			return out
		}
		for i := range out {
			out[i] = r.entry(key, list[i], most)
		}
		return out
	}
	x, ok := v.Int()
	if !ok {
		r.fail("%s.%s is neither a number nor an array", r.arch, key)
		return out
	}
	for i := range out {
		out[i] = r.entry(key, x, most)
	}
	return out
}

func (r *reader) entry(key string, x, most int64) int {
	if x < 0 || x > most {
		r.fail("%s.%s holds %d", r.arch, key, x)
		return 0
	}
	return int(x)
}

// get finds one of the architecture's own keys.
func (r *reader) get(key string) (gguf.Value, bool) { return r.h.Get(r.arch + "." + key) }

// value reads a whole number where there is one.
func (r *reader) value(key string, missing int64) int64 {
	v, ok := r.get(key)
	if !ok {
		return missing
	}
	n, ok := v.Int()
	if !ok {
		return missing
	}
	return n
}

// flags reads one truth value for each of n layers, from an array or as one for
// all.
func (r *reader) flags(key string, n int) []bool {
	out := make([]bool, n)
	v, _ := r.get(key)
	if list, ok := v.Bools(); ok && len(list) >= n {
		copy(out, list)
		return out
	}
	if list, ok := v.Ints(); ok && len(list) >= n {
		for i := range out {
			out[i] = list[i] != 0
		}
		return out
	}
	one, ok := v.Int()
	if b, is := v.Bool(); is {
		one, ok = 0, true
		if b {
			one = 1
		}
	}
	if !ok {
		r.fail("%s.%s does not say yes or no for %d layers", r.arch, key, n)
		return out
	}
	for i := range out {
		out[i] = one != 0
	}
	return out
}

// pattern reads which layers slide, as the pinned library does: from an array
// where it reads one, else a period or the family's built-in one. scalar says
// that a period gave it; ignored that there is an array, which the library
// does not read, with another pattern than it then takes.
func (r *reader) pattern(s *Sliding, n int) (out []bool, scalar, ignored bool) {
	v, ok := r.get(slidingKey)
	if array := v.Type() == gguf.ValueArray; ok && s.Arrays && (array || s.Period == 0) || !ok && s.Period == 0 {
		return r.flags(slidingKey, n), false, false
	}
	out = s.periodic(s.Period, n)
	if !ok {
		return out, true, false
	}
	if list, ok := v.Bools(); ok {
		return out, true, len(list) < n || !slices.Equal(list[:n], out)
	}
	if v.Type() == gguf.ValueArray {
		return out, true, true
	}
	x, ok := v.Int()
	if !ok || x < 1 || x > maxLayers {
		r.fail("%s.%s is neither an array of truth values nor a period", r.arch, slidingKey)
		return out, true, false
	}
	return s.periodic(int(x), n), true, false
}

// periodic is the pattern of a period (llama_hparams::set_swa_pattern): all but
// one of so many layers slide; with 0 all do.
func (s *Sliding) periodic(period, n int) []bool {
	out := make([]bool, n)
	for i := range out {
		switch {
		case period == 0:
			out[i] = true
		case s.FullFirst:
			out[i] = i%period != 0
		default:
			out[i] = i%period < period-1
		}
	}
	return out
}

// predicting is the number of blocks at the end that predict further tokens;
// the library counts them as layers of the file.
func (r *reader) predicting() int {
	n := int(r.value("nextn_predict_layers", 0))
	if n == 0 {
		return 0
	}
	// A published DeepSeek-V4 states one and does not count it: its arrays then
	// have more entries than blocks.
	if v, ok := r.get("attention.compress_ratios"); ok && int64(v.Len()) > r.value("block_count", 0) {
		return 0
	}
	return n
}

// maxExperts is llama.cpp's LLAMA_MAX_EXPERTS.
const maxExperts = 1024

// guard refuses what llama.cpp asserts while it reads the metadata of any
// family (llama-model.cpp, load_hparams): it would end the process. Values of
// another type it refuses by itself.
func (r *reader) guard(layers int) {
	number := func(key string) int {
		v, ok := r.h.Get(r.arch + "." + key)
		if !ok {
			return 0
		}
		n, ok := v.Int()
		if list, is := v.Ints(); is && len(list) > 0 {
			n, ok = slices.Max(list), slices.Min(list) >= 0 // per layer
		}
		if !ok {
			return 0
		}
		if n < 0 || n > maxExperts {
			r.fail("%s.%s is %d", r.arch, key, n)
			return 0
		}
		return int(n)
	}
	experts, used := number("expert_count"), number("expert_used_count")
	if oneIsNone := []string{"hunyuan_vl", "hunyuan-dense"}; experts <= 1 && slices.Contains(oneIsNone, r.arch) {
		experts, used = 0, 0
	}
	groups, inUse := number("expert_group_count"), number("expert_group_used_count")
	switch {
	case used > experts || experts > 0 && used == 0:
		r.fail("%d of %d experts are used", used, experts)
	case groups > 0 && groups >= experts:
		r.fail("%d groups of %d experts", groups, experts)
	case groups > 1 && (experts%groups != 0 || inUse < 1 || inUse >= groups):
		r.fail("%d of %d groups of %d experts are used", inUse, groups, experts)
	}
	if n := number("nextn_predict_layers"); n > 0 && n >= layers {
		r.fail("%d of %d layers predict further tokens", n, layers)
	}
}

// vocab is the number of tokens: the tokenizer's list, else the declared size.
func (r *reader) vocab() int {
	if v, ok := r.h.Get("tokenizer.ggml.tokens"); ok {
		return v.Len()
	}
	return r.optional("vocab_size", 0, 1<<24)
}
