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
func (r *reader) perLayer(key string, n int, def []int) []int {
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
			out[i] = r.heads(key, list[i])
		}
		return out
	}
	x, ok := v.Int()
	if !ok {
		r.fail("%s.%s is neither a number nor an array", r.arch, key)
		return out
	}
	for i := range out {
		out[i] = r.heads(key, x)
	}
	return out
}

func (r *reader) heads(key string, x int64) int {
	if x < 0 || x > maxHeads {
		r.fail("%s.%s holds %d", r.arch, key, x)
		return 0
	}
	return int(x)
}

// pattern reads which layers slide, as the pinned library does: a period, or
// the family's built-in one. The library ignores an array; ignored says that
// there is one which differs from what the library then does.
func (r *reader) pattern(key string, period, n int) (out []bool, ignored bool) {
	out = periodic(period, n)
	v, ok := r.h.Get(r.arch + "." + key)
	if !ok {
		return out, false
	}
	if list, ok := v.Bools(); ok {
		return out, len(list) < n || !slices.Equal(list[:n], out)
	}
	if v.Type() == gguf.ValueArray {
		return out, true
	}
	x, ok := v.Int()
	if !ok || x < 1 || x > maxLayers {
		r.fail("%s.%s is neither an array of truth values nor a period", r.arch, key)
		return out, false
	}
	return periodic(int(x), n), false
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
