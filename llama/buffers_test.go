package llama

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseSizes(t *testing.T) {
	t.Parallel()
	got := parseSizes([]string{
		"llama_kv_cache:        CPU KV buffer size =     4.00 MiB",
		"llama_kv_cache:        CPU KV buffer size =     0.50 MiB",
		"llama_memory_recurrent:        CPU RS buffer size =     2.00 MiB",
		"llama_context:        CPU  output buffer size =     0.25 MiB",
		"sched_reserve:        CPU compute buffer size =    99.00 MiB",
		"sched_reserve:        CPU compute buffer size =    10.50 MiB",
		"sched_reserve:    Vulkan0 compute buffer size =     1.00 MiB",
		"load_tensors:   CPU_Mapped model buffer size =     1.13 MiB",
		"x KV buffer size = many MiB", "x KV buffer size = -1.00 MiB", "x KV buffer size = NaN MiB", "x KV buffer size = 1.00 GiB", " buffer size = 1.00 MiB", " buffer size =", "",
	})
	want := Buffers{KV: 6<<20 + 1<<19, Compute: 11<<20 + 1<<19, Output: 1 << 18}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestContextBuffers compares what the library states with the formula for
// plain attention: keys and values of F16 for all heads.
func TestContextBuffers(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	perCell := 0
	for range m.NLayer() {
		perCell += 2 * 2 * m.NHeadKV() * m.NEmbd() / m.NHead()
	}
	for _, p := range []ContextParams{
		{NCtx: 1024, NBatch: 256, NUBatch: 256, NOutputsMax: 1},
		{NCtx: 4096, NBatch: 256, NUBatch: 256, NOutputsMax: 256, NSeqMax: 4},
	} {
		c := newContext(t, m, p)
		b := c.Buffers()
		// The library prints hundredths of a MiB.
		if want := int64(perCell) * int64(p.NCtx); b.KV < want-6<<10 || b.KV > want+6<<10 {
			t.Errorf("%d cells: %d bytes of KV, want %d", p.NCtx, b.KV, want)
		}
		if logits := int64(4 * m.Vocab().N() * int(p.NOutputsMax)); b.Compute < logits || b.Output == 0 {
			t.Errorf("%d cells: %+v for logits of %d bytes", p.NCtx, b, logits)
		}
		c.Free()
		if c.Buffers() != (Buffers{}) {
			t.Error("a freed context has buffers")
		}
	}
}
