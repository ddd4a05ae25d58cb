package hardware

import "golang.org/x/sys/cpu"

// features are those instructions of this processor that stages gain from, in
// the order of their names in ggml.
func features() []string {
	x, a := &cpu.X86, &cpu.ARM64
	out := []string{}
	for _, f := range []struct {
		name string
		has  bool
	}{
		{"sse42", x.HasSSE42}, {"avx", x.HasAVX}, {"f16c", x.HasF16C}, {"fma", x.HasFMA}, {"avx2", x.HasAVX2}, {"avx_vnni", x.HasAVXVNNI},
		{"avx512f", x.HasAVX512F}, {"avx512_vnni", x.HasAVX512VNNI}, {"avx512_bf16", x.HasAVX512BF16}, {"amx_int8", x.HasAMXInt8},
		{"neon", a.HasASIMD}, {"dotprod", a.HasASIMDDP}, {"i8mm", a.HasI8MM}, {"sve", a.HasSVE},
	} {
		if f.has {
			out = append(out, f.name)
		}
	}
	return out
}
