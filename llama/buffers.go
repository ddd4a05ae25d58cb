package llama

import (
	"strconv"
	"strings"
)

// Buffers is the memory of a context, in bytes, as libllama states it: exact
// to the hundredth of a MiB that it prints. The C API has no other way to it.
type Buffers struct {
	// KV holds keys, values and recurrent state; all of it is touched when the
	// context is made.
	KV int64
	// Compute holds the results of one Decode of NUBatch rows, touched as far
	// as calls need it.
	Compute int64
	// Output holds logits, at first one row per sequence; a Decode with more
	// outputs makes it larger.
	Output int64
}

// Buffers gives the memory that the context took; zero for a freed context.
// Contexts that were made at the same time are counted together.
func (c Context) Buffers() Buffers {
	if st := c.state(); st != nil {
		return st.buffers
	}
	return Buffers{}
}

// sizeMark is where the lines of a call begin that state buffer sizes.
type sizeMark struct{ from int }

// markSizes begins to keep lines with buffer sizes; sizesSince ends it.
func markSizes() sizeMark {
	logState.mu.Lock()
	defer logState.mu.Unlock()
	logState.sizing++
	return sizeMark{len(logState.sizes)}
}

// noteSizeLocked keeps a line such as
// "llama_kv_cache:        CPU KV buffer size =    64.00 MiB".
func noteSizeLocked(line string) {
	if logState.sizing > 0 && strings.Contains(line, " buffer size =") {
		logState.sizes = append(logState.sizes, line)
	}
}

func sizesSince(m sizeMark) Buffers {
	logState.mu.Lock()
	lines := append([]string(nil), logState.sizes[min(m.from, len(logState.sizes)):]...)
	if logState.sizing--; logState.sizing == 0 {
		logState.sizes = nil
	}
	logState.mu.Unlock()
	return parseSizes(lines)
}

// parseSizes adds up the lines. A graph is sometimes reserved again, so the
// newest compute buffer of a device counts; caches of one context add up.
func parseSizes(lines []string) Buffers {
	var b Buffers
	compute := map[string]int64{}
	for _, line := range lines {
		name, value, ok := strings.Cut(line, " buffer size =")
		if !ok {
			continue
		}
		n, ok := mebibytes(value)
		if !ok {
			continue
		}
		switch {
		case strings.HasSuffix(name, " KV"), strings.HasSuffix(name, " RS"), strings.HasSuffix(name, " state"):
			b.KV += n
		case strings.HasSuffix(name, " output"):
			b.Output += n
		case strings.HasSuffix(name, " compute"):
			compute[name] = n
		}
	}
	for _, n := range compute {
		b.Compute += n
	}
	return b
}

// maxMebibytes bounds what a line may claim: a pebibyte.
const maxMebibytes = 1 << 30

func mebibytes(text string) (int64, bool) {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !strings.HasPrefix(unit, "MiB") || !(v >= 0 && v <= maxMebibytes) {
		return 0, false
	}
	return int64(v * (1 << 20)), true
}
