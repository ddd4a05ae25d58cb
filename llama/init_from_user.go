package llama

import (
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"neuron/llama/gguf"
)

var (
	// struct llama_model * llama_model_init_from_user(struct gguf_context * metadata, llama_model_set_tensor_data_t set_tensor_data,
	//     void * set_tensor_data_ud, struct llama_model_params params);
	cModelFromUser func(meta, fill, userData uintptr, p modelParams) uintptr
	// size_t ggml_quantize_chunk(enum ggml_type type, const float * src, void * dst, int64_t start, int64_t nrows,
	//     int64_t n_per_row, const float * imatrix);
	cQuantizeChunk func(typ int32, src, dst unsafe.Pointer, start, rows, perRow int64, imatrix uintptr) uint64
	// bool ggml_quantize_requires_imatrix(enum ggml_type type);
	cQuantizeNeedsIMatrix func(typ int32) bool
)

var userBinds = []bind{
	{libLlama, "llama_model_init_from_user", &cModelFromUser},
	{libBase, "ggml_quantize_chunk", &cQuantizeChunk},
	{libBase, "ggml_quantize_requires_imatrix", &cQuantizeNeedsIMatrix},
}

// The one C function that hands out the tensors of a model without a file. Loads
// run one after another, so it needs no user data to find its receiver.
var (
	fillOnce sync.Once
	fillAddr uintptr
	filling  func(Tensor) // guarded by loadMu: the callback runs inside the load
)

// void (*llama_model_set_tensor_data_t)(struct ggml_tensor * tensor, void * userdata);
func fillCallback(t, _ uintptr) uintptr {
	if filling != nil && t != 0 {
		filling(Tensor(t))
	}
	return 0
}

// InitModel makes a model without a file: meta holds its metadata, and fill gets
// every tensor that the architecture has with it, by name, type and size, to write
// its values with Set. Tensors that an architecture only may have are made when
// meta lists them, and the type is that of the list, F32 without it; the list must
// be as long as what is made, whatever its names are. fill is called on the
// goroutine of InitModel, once for each tensor and once more for each copy of it
// that libllama keeps; it must not panic and not keep the tensor. Of p only the
// devices count: the weights are in memory, and not repacked.
//
// Metadata that an architecture does not expect can abort the process. Errors:
// model_load, invalid_handle, invalid_argument, not_loaded.
func InitModel(meta GGUF, fill func(Tensor), p ModelParams) (Model, error) {
	const op = "init model"
	if err := meta.check(op); err != nil {
		return 0, err
	}
	if fill == nil {
		return 0, fail(CodeInvalidArg, op, "nobody fills the tensors")
	}
	raw := cModelDefaults()
	devs, err := deviceList(p)
	if err != nil {
		return 0, err
	}
	if devs != nil {
		raw.Devices = uintptr(unsafe.Pointer(unsafe.SliceData(devs)))
	}
	raw.NGPULayers = int32(max(min(p.GPULayers, 1<<20), -1))
	loadMu.Lock()
	defer loadMu.Unlock()
	fillOnce.Do(func() { fillAddr = purego.NewCallback(fillCallback) })
	filling = fill
	loadProgress, loadStopped = nil, false
	raw.Progress = progressAddr
	defer func() { filling = nil }()
	mark := logMark()
	h := cModelFromUser(uintptr(meta), fillAddr, 0, raw)
	runtime.KeepAlive(devs)
	if h == 0 {
		return 0, fail(CodeModelLoad, op, logSince(mark))
	}
	return registerModel(h), nil
}

// QuantizeRows turns rows of perRow numbers into another type, as they lie in a
// file. A type that has no quantizer without a calibration matrix, and a row that
// its blocks do not divide, are invalid_argument.
func QuantizeRows(typ uint32, rows []float32, perRow int) ([]byte, error) {
	const op = "quantize rows"
	block, size, name, ok := TypeInfo(typ)
	switch {
	case !loaded():
		return nil, fail(CodeNotLoaded, op, "")
	case !ok || block == 0 || !quantizable(typ) || cQuantizeNeedsIMatrix(int32(typ)):
		return nil, fail(CodeInvalidArg, op, "no quantizer for type "+name)
	case perRow <= 0 || len(rows)%perRow != 0 || int64(perRow)%block != 0:
		return nil, fail(CodeInvalidArg, op, "rows that the blocks of "+name+" do not divide")
	case len(rows) == 0:
		return nil, nil
	}
	out := make([]byte, uint64(len(rows))/uint64(block)*size)
	n := cQuantizeChunk(int32(typ), unsafe.Pointer(&rows[0]), unsafe.Pointer(&out[0]), 0, int64(len(rows)/perRow), int64(perRow), 0)
	if n != uint64(len(out)) {
		return nil, fail(CodeQuantize, op, "the library wrote another size")
	}
	return out, nil
}

// quantizable says whether ggml_quantize_chunk has a case for the type; it knows
// no way to say so itself.
func quantizable(typ uint32) bool {
	switch gguf.Type(typ) {
	case gguf.TypeF32, gguf.TypeF16, gguf.TypeBF16, gguf.TypeQ4_0, gguf.TypeQ4_1, gguf.TypeQ5_0, gguf.TypeQ5_1, gguf.TypeQ8_0,
		gguf.TypeQ2_K, gguf.TypeQ3_K, gguf.TypeQ4_K, gguf.TypeQ5_K, gguf.TypeQ6_K, gguf.TypeIQ4_NL, gguf.TypeIQ4_XS, gguf.TypeMXFP4:
		return true
	}
	return false
}
