package llama

import (
	"fmt"
	"strings"
	"unsafe"
)

// The structs of llama.h and ggml.h (release v0.4.0) that cross the border, field
// for field. Pointers are uintptr: their targets are C memory or are kept alive
// by the caller. bool is uint8.

// struct llama_model_params
type modelParams struct {
	Devices       uintptr // ggml_backend_dev_t *, ends with NULL
	BuftOverrides uintptr
	NGPULayers    int32
	SplitMode     int32
	LoadMode      int32
	LazyMode      int32
	MainGPU       int32
	_             int32
	TensorSplit   uintptr
	Progress      uintptr
	ProgressData  uintptr
	KVOverrides   uintptr
	VocabOnly     uint8
	CheckTensors  uint8
	UseExtraBufts uint8
	NoHost        uint8
	NoAlloc       uint8
	LoadMTP       uint8
	_             [2]uint8
}

// struct llama_context_params
type contextParams struct {
	NCtx              uint32
	NBatch            uint32
	NUBatch           uint32
	NSeqMax           uint32
	NRsSeq            uint32
	NOutputsMax       uint32
	NOutputsMaxPerSeq uint32
	NThreads          int32
	NThreadsBatch     int32
	CtxType           int32
	RopeScaling       int32
	Pooling           int32
	Attention         int32
	FlashAttn         int32
	RopeFreqBase      float32
	RopeFreqScale     float32
	YarnExtFactor     float32
	YarnAttnFactor    float32
	YarnBetaFast      float32
	YarnBetaSlow      float32
	YarnOrigCtx       uint32
	DefragThold       float32
	CbEval            uintptr
	CbEvalData        uintptr
	TypeK             int32
	TypeV             int32
	Abort             uintptr
	AbortData         uintptr
	Embeddings        uint8
	OffloadKQV        uint8
	NoPerf            uint8
	OpOffload         uint8
	SWAFull           uint8
	KVUnified         uint8
	_                 [2]uint8
	Samplers          uintptr
	NSamplers         uint64
	CtxOther          uintptr
}

// struct llama_model_quantize_params
type quantizeParams struct {
	NThread        int32
	Ftype          int32
	OutputType     int32
	EmbeddingType  int32
	Requantize     uint8
	QuantizeOutput uint8
	OnlyCopy       uint8
	Pure           uint8
	KeepSplit      uint8
	DryRun         uint8
	_              [2]uint8
	IMatrix        uintptr
	KVOverrides    uintptr
	TensorTypes    uintptr
	PruneLayers    uintptr
	MaxBufSize     uint64
}

// struct llama_sampler_chain_params
type chainParams struct {
	NoPerf uint8
}

// struct llama_batch
type batchData struct {
	NTokens int32
	_       int32
	Token   uintptr
	Embd    uintptr
	Pos     uintptr
	NSeqID  uintptr
	SeqID   uintptr
	Logits  uintptr
}

// struct ggml_threadpool_params; GGML_MAX_N_THREADS is 512
type poolParams struct {
	CPUMask   [maxThreads]uint8
	NThreads  int32
	Prio      int32
	Poll      uint32
	StrictCPU uint8
	Paused    uint8
	_         [2]uint8
}

// struct ggml_init_params
type ggmlInitParams struct {
	MemSize   uint64
	MemBuffer uintptr
	NoAlloc   uint8
	_         [7]uint8
}

// struct ggml_tensor, read in place in C memory
type ggmlTensor struct {
	Type     int32
	_        int32
	Buffer   uintptr
	NE       [4]int64
	NB       [4]uint64
	Op       int32
	OpParams [16]int32
	Flags    int32
	Src      [10]uintptr
	ViewSrc  uintptr
	ViewOffs uint64
	Data     uintptr
	Name     [64]byte
	Extra    uintptr
	_        [8]byte
}

const maxThreads = 512

var (
	// struct llama_model_params llama_model_default_params(void);
	cModelDefaults func() modelParams
	// struct llama_context_params llama_context_default_params(void);
	cContextDefaults func() contextParams
	// struct llama_model_quantize_params llama_model_quantize_default_params(void);
	cQuantizeDefaults func() quantizeParams
	// struct llama_sampler_chain_params llama_sampler_chain_default_params(void);
	cChainDefaults func() chainParams
	// void ggml_threadpool_params_init(struct ggml_threadpool_params * p, int n_threads);
	cPoolParamsInit func(p *poolParams, nThreads int32)
	// struct ggml_context * ggml_init(struct ggml_init_params params);
	cGGMLInit func(p ggmlInitParams) uintptr
	// void ggml_free(struct ggml_context * ctx);
	cGGMLFree func(ctx uintptr)
	// struct ggml_tensor * ggml_new_tensor_4d(struct ggml_context * ctx, enum ggml_type type,
	//     int64_t ne0, int64_t ne1, int64_t ne2, int64_t ne3);
	cNewTensor4D func(ctx uintptr, typ int32, ne0, ne1, ne2, ne3 int64) uintptr
	// struct ggml_tensor * ggml_set_name(struct ggml_tensor * tensor, const char * name);
	cSetName func(t uintptr, name string) uintptr
	// const char * ggml_get_name(const struct ggml_tensor * tensor);
	cGetName func(t uintptr) uintptr
	// void * ggml_get_data(const struct ggml_tensor * tensor);
	cGetData func(t uintptr) uintptr
)

var layoutBinds = []bind{
	{libLlama, "llama_model_default_params", &cModelDefaults},
	{libLlama, "llama_context_default_params", &cContextDefaults},
	{libLlama, "llama_model_quantize_default_params", &cQuantizeDefaults},
	{libLlama, "llama_sampler_chain_default_params", &cChainDefaults},
	{libBase, "ggml_threadpool_params_init", &cPoolParamsInit},
	{libBase, "ggml_init", &cGGMLInit},
	{libBase, "ggml_free", &cGGMLFree},
	{libBase, "ggml_new_tensor_4d", &cNewTensor4D},
	{libBase, "ggml_set_name", &cSetName},
	{libBase, "ggml_get_name", &cGetName},
	{libBase, "ggml_get_data", &cGetData},
}

// defaults is what the library itself says about its structs.
type defaults struct {
	Model    modelParams
	Context  contextParams
	Quantize quantizeParams
	Chain    chainParams
	Pool     poolParams
	Probe    tensorProbe
}

// tensorProbe is a tensor that the library made: its bytes, and what the
// library's own accessors say about it.
type tensorProbe struct {
	Tensor     ggmlTensor
	NameOffset uintptr // ggml_get_name(t) - t
	Data       uintptr // ggml_get_data(t)
}

const (
	probeName    = "neuron-layout-probe"
	probeThreads = 3
)

var probeDims = [4]int64{32, 5, 3, 2}

func readDefaults() defaults {
	d := defaults{
		Model:    cModelDefaults(),
		Context:  cContextDefaults(),
		Quantize: cQuantizeDefaults(),
		Chain:    cChainDefaults(),
	}
	cPoolParamsInit(&d.Pool, probeThreads)
	ctx := cGGMLInit(ggmlInitParams{MemSize: 1 << 16})
	if ctx == 0 {
		return d // the empty probe fails the check
	}
	defer cGGMLFree(ctx)
	t := cNewTensor4D(ctx, typeQ8_0, probeDims[0], probeDims[1], probeDims[2], probeDims[3])
	if t == 0 {
		return d
	}
	cSetName(t, probeName)
	d.Probe = tensorProbe{Tensor: *(*ggmlTensor)(pointer(t)), NameOffset: cGetName(t) - t, Data: cGetData(t)}
	return d
}

// checkLayout compares the library's own defaults with the values that release
// v0.4.0 is known to have, field by field. A library whose structs lie otherwise
// puts them elsewhere; it is refused before anything could be written to a wrong
// place.
func checkLayout(d defaults) error {
	var wrong []string
	want := func(field string, got, want any) {
		if got != want {
			wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", field, got, want))
		}
	}
	m := d.Model
	m.TensorSplit, m.BuftOverrides = 0, 0
	want("model params", m, modelParams{
		NGPULayers: -1, SplitMode: 1, LoadMode: loadModeDefault, LazyMode: 1, UseExtraBufts: 1,
	})
	want("context params", d.Context, contextParams{
		NCtx: 512, NBatch: 2048, NUBatch: 512, NSeqMax: 1, NOutputsMaxPerSeq: 1, NThreads: 4, NThreadsBatch: 4,
		RopeScaling: -1, Pooling: -1, Attention: -1, FlashAttn: -1,
		YarnExtFactor: -1, YarnAttnFactor: -1, YarnBetaFast: -1, YarnBetaSlow: -1, DefragThold: -1,
		TypeK: typeF16, TypeV: typeF16, OffloadKQV: 1, NoPerf: 1, OpOffload: 1, SWAFull: 1,
	})
	want("quantize params", d.Quantize, quantizeParams{
		Ftype: int32(FtypeQ8_0), OutputType: typeCount, EmbeddingType: typeCount, QuantizeOutput: 1, MaxBufSize: 8 << 30,
	})
	want("sampler chain params", d.Chain, chainParams{NoPerf: 1})
	want("thread pool params", d.Pool, poolParams{NThreads: probeThreads, Poll: 50})
	p := d.Probe
	t := p.Tensor
	want("tensor name offset", p.NameOffset, unsafe.Offsetof(t.Name))
	want("tensor data", t.Data, p.Data)
	want("tensor dims", t.NE, probeDims)
	want("tensor type", t.Type, int32(typeQ8_0))
	want("tensor strides", t.NB, [4]uint64{34, 34, 34 * 5, 34 * 15})
	want("tensor name", cName(&t.Name), probeName)
	if len(wrong) > 0 {
		return fail(CodeNativeLayout, "check layout", strings.Join(wrong, "; "))
	}
	return nil
}

func cName(b *[64]byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b[:])
}
