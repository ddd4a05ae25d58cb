package llama

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Model is a llama_model*.
type Model uintptr

// enum llama_load_mode
const (
	loadModeDefault = -1
	loadModeNone    = 0
	loadModeMmap    = 1
)

// ModelParams says how to load. The zero value loads all weights, mapped, onto
// the CPU, with repacking.
type ModelParams struct {
	VocabOnly    bool // no weights, only tokenizer and metadata
	NoMmap       bool // read the weights into anonymous memory
	NoRepack     bool // keep the weights as they are in the file: less memory, slower prefill
	CheckTensors bool // look for invalid numbers in the weights
	GPULayers    int  // layers on accelerators; 0 none, negative all
	// Devices limits the accelerators; nil means all that there are. Ignored when
	// GPULayers is 0.
	Devices []Device
	// Progress is called with the fraction done (0 to 1; -1 on Windows, where it is
	// not known) on the goroutine of LoadModel. false stops the load.
	Progress func(fraction float32) bool
}

type modelState struct {
	vocab  Vocab
	nEmbIn int
	nVocab int
	causal bool

	mu       sync.Mutex
	contexts int
	freed    bool
}

var (
	models sync.Map // Model -> *modelState

	// loadMu serialises loading: libllama reports progress and errors per process.
	loadMu       sync.Mutex
	loadProgress func(float32) bool // guarded by loadMu: the callback runs inside the load
	loadStopped  bool               // guarded by loadMu
)

var (
	// struct llama_model * llama_model_load_from_file(const char * path_model, struct llama_model_params params);
	cModelFromFile func(path string, p modelParams) uintptr
	// struct llama_model * llama_model_load_from_splits(const char ** paths, size_t n_paths, struct llama_model_params params);
	cModelFromSplits func(paths unsafe.Pointer, n uint64, p modelParams) uintptr
	// void llama_model_free(struct llama_model * model);
	cModelFree func(m uintptr)
	// void llama_model_save_to_file(const struct llama_model * model, const char * path_model);
	cModelSave func(m uintptr, path string)
	// uint32_t llama_model_quantize(const char * fname_inp, const char * fname_out, const llama_model_quantize_params * params);
	cModelQuantize func(in, out string, p *quantizeParams) uint32
	// const struct llama_vocab * llama_model_get_vocab(const struct llama_model * model);
	cModelVocab func(m uintptr) uintptr
	// int32_t llama_model_n_layer(const struct llama_model * model);
	cModelNLayer func(m uintptr) int32
	// int32_t llama_model_n_embd(const struct llama_model * model);
	cModelNEmbd func(m uintptr) int32
	// int32_t llama_model_n_embd_inp(const struct llama_model * model);
	cModelNEmbdInp func(m uintptr) int32
	// int32_t llama_model_n_embd_out(const struct llama_model * model);
	cModelNEmbdOut func(m uintptr) int32
	// int32_t llama_model_n_head(const struct llama_model * model);
	cModelNHead func(m uintptr) int32
	// int32_t llama_model_n_head_kv(const struct llama_model * model);
	cModelNHeadKV func(m uintptr) int32
	// int32_t llama_model_n_ctx_train(const struct llama_model * model);
	cModelNCtxTrain func(m uintptr) int32
	// int32_t llama_model_n_swa(const struct llama_model * model);
	cModelNSWA func(m uintptr) int32
	// uint64_t llama_model_n_params(const struct llama_model * model);
	cModelNParams func(m uintptr) uint64
	// uint64_t llama_model_size(const struct llama_model * model);
	cModelSize func(m uintptr) uint64
	// int32_t llama_model_desc(const struct llama_model * model, char * buf, size_t buf_size);
	cModelDesc func(m uintptr, buf *byte, size uint64) int32
	// int32_t llama_model_meta_val_str(const struct llama_model * model, const char * key, char * buf, size_t buf_size);
	cModelMeta func(m uintptr, key string, buf *byte, size uint64) int32
	// const char * llama_model_chat_template(const struct llama_model * model, const char * name);
	cModelTemplate func(m, name uintptr) string
	// bool llama_model_has_encoder(const struct llama_model * model);
	cModelHasEncoder func(m uintptr) bool
	// bool llama_model_is_recurrent(const struct llama_model * model);
	cModelIsRecurrent func(m uintptr) bool
	// bool llama_model_is_hybrid(const struct llama_model * model);
	cModelIsHybrid func(m uintptr) bool
)

var modelBinds = []bind{
	{libLlama, "llama_model_load_from_file", &cModelFromFile},
	{libLlama, "llama_model_load_from_splits", &cModelFromSplits},
	{libLlama, "llama_model_free", &cModelFree},
	{libLlama, "llama_model_save_to_file", &cModelSave},
	{libLlama, "llama_model_quantize", &cModelQuantize},
	{libLlama, "llama_model_get_vocab", &cModelVocab},
	{libLlama, "llama_model_n_layer", &cModelNLayer},
	{libLlama, "llama_model_n_embd", &cModelNEmbd},
	{libLlama, "llama_model_n_embd_inp", &cModelNEmbdInp},
	{libLlama, "llama_model_n_embd_out", &cModelNEmbdOut},
	{libLlama, "llama_model_n_head", &cModelNHead},
	{libLlama, "llama_model_n_head_kv", &cModelNHeadKV},
	{libLlama, "llama_model_n_ctx_train", &cModelNCtxTrain},
	{libLlama, "llama_model_n_swa", &cModelNSWA},
	{libLlama, "llama_model_n_params", &cModelNParams},
	{libLlama, "llama_model_size", &cModelSize},
	{libLlama, "llama_model_desc", &cModelDesc},
	{libLlama, "llama_model_meta_val_str", &cModelMeta},
	{libLlama, "llama_model_chat_template", &cModelTemplate},
	{libLlama, "llama_model_has_encoder", &cModelHasEncoder},
	{libLlama, "llama_model_is_recurrent", &cModelIsRecurrent},
	{libLlama, "llama_model_is_hybrid", &cModelIsHybrid},
}

func progressed(fraction float32) uintptr {
	if loadProgress != nil && !loadProgress(fraction) {
		loadStopped = true
		return 0
	}
	return 1
}

// LoadModel loads a model from one file, or from the files of a split model in
// their order. Loads run one after another. Errors: model_load, model_aborted,
// invalid_argument, not_loaded.
func LoadModel(paths []string, p ModelParams) (Model, error) {
	const op = "load model"
	if !loaded() {
		return 0, fail(CodeNotLoaded, op, "")
	}
	if len(paths) == 0 {
		return 0, fail(CodeInvalidArg, op, "no files")
	}
	for _, path := range paths {
		if strings.IndexByte(path, 0) >= 0 {
			return 0, fail(CodeInvalidArg, op, "zero byte in a path")
		}
		if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
			return 0, fail(CodeModelLoad, op, "not a readable file: "+path)
		}
	}
	raw := cModelDefaults()
	raw.VocabOnly = cBool(p.VocabOnly)
	raw.CheckTensors = cBool(p.CheckTensors)
	raw.UseExtraBufts = cBool(!p.NoRepack)
	raw.LoadMode = loadModeMmap
	if p.NoMmap {
		raw.LoadMode = loadModeNone
	}
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
	loadProgress, loadStopped = p.Progress, false
	defer func() { loadProgress = nil }()
	raw.Progress = progressAddr
	mark := logMark()
	var h uintptr
	if len(paths) == 1 {
		h = cModelFromFile(paths[0], raw)
	} else {
		h = loadSplits(paths, raw)
	}
	runtime.KeepAlive(devs)
	if h == 0 {
		if loadStopped {
			return 0, fail(CodeModelAborted, op, "")
		}
		return 0, fail(CodeModelLoad, op, logSince(mark))
	}
	return registerModel(h), nil
}

func loadSplits(paths []string, raw modelParams) uintptr {
	// The array of pointers lives as long as the call; pinning keeps both it and
	// the strings in place for C.
	var pin runtime.Pinner
	defer pin.Unpin()
	ptrs := make([]unsafe.Pointer, len(paths))
	for i, path := range paths {
		b := append([]byte(path), 0)
		pin.Pin(&b[0])
		ptrs[i] = unsafe.Pointer(&b[0])
	}
	pin.Pin(&ptrs[0])
	return cModelFromSplits(unsafe.Pointer(&ptrs[0]), uint64(len(ptrs)), raw)
}

// deviceList gives the NULL-terminated list, nil for "all". The list must be
// empty, not the CPU, for a pure CPU model: with the CPU in it an attached thread
// pool gets no work, and without a list accelerators still take large products.
func deviceList(p ModelParams) ([]uintptr, error) {
	if p.GPULayers == 0 {
		return []uintptr{0}, nil
	}
	if p.Devices == nil {
		return nil, nil
	}
	var list []uintptr
	for _, d := range p.Devices {
		if d.handle == 0 {
			return nil, fail(CodeInvalidArg, "load model", "a device that does not come from Devices")
		}
		if d.Kind != DeviceCPU {
			list = append(list, d.handle)
		}
	}
	return append(list, 0), nil
}

func registerModel(h uintptr) Model {
	m := Model(h)
	v := Vocab(cModelVocab(h))
	st := &modelState{vocab: v, nEmbIn: int(cModelNEmbdInp(h)), nVocab: int(cVocabN(uintptr(v))), causal: true}
	if arch, ok := metaOf(h, "general.architecture"); ok {
		if s, ok := metaOf(h, arch+".attention.causal"); ok && s == "false" {
			st.causal = false
		}
	}
	vocabs.Store(v, &vocabState{typ: VocabType(cVocabType(uintptr(v))), n: int32(st.nVocab)})
	models.Store(m, st)
	return m
}

func (m Model) state() *modelState {
	if v, ok := models.Load(m); ok {
		return v.(*modelState)
	}
	return nil
}

// Free frees the model, at once or when its last context is freed. Freeing twice
// does nothing.
func (m Model) Free() {
	st := m.state()
	if st == nil {
		return
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.freed = true
	m.dropLocked(st)
}

func (m Model) dropLocked(st *modelState) {
	if !st.freed || st.contexts > 0 {
		return
	}
	models.Delete(m)
	vocabs.Delete(st.vocab)
	cModelFree(uintptr(m))
}

func (m Model) count(f func(uintptr) int32) int {
	if m.state() == nil {
		return 0
	}
	return int(f(uintptr(m)))
}

// NLayer is the number of layers. The counts of a freed model are 0.
func (m Model) NLayer() int { return m.count(cModelNLayer) }

// NEmbd is the width of the hidden state.
func (m Model) NEmbd() int { return m.count(cModelNEmbd) }

// NEmbdInp is the width of a row of an embedding batch.
func (m Model) NEmbdInp() int { return m.count(cModelNEmbdInp) }

// NEmbdOut is the width of a row of Embeddings.
func (m Model) NEmbdOut() int { return m.count(cModelNEmbdOut) }

// NHead is the number of attention heads.
func (m Model) NHead() int { return m.count(cModelNHead) }

// NHeadKV is the number of key and value heads.
func (m Model) NHeadKV() int { return m.count(cModelNHeadKV) }

// NCtxTrain is the context size that the model was trained with.
func (m Model) NCtxTrain() int { return m.count(cModelNCtxTrain) }

// NSWA is the size of the sliding window, 0 for none.
func (m Model) NSWA() int { return m.count(cModelNSWA) }

// NParams is the number of weights.
func (m Model) NParams() uint64 {
	if m.state() == nil {
		return 0
	}
	return cModelNParams(uintptr(m))
}

// Size is the size of all tensors in bytes.
func (m Model) Size() uint64 {
	if m.state() == nil {
		return 0
	}
	return cModelSize(uintptr(m))
}

// Desc is a short description, as in "llama 1B Q4_0".
func (m Model) Desc() string {
	if m.state() == nil {
		return ""
	}
	s, _ := cString(func(b *byte, n uint64) int32 { return cModelDesc(uintptr(m), b, n) })
	return s
}

// Meta gives a metadata value as text. Arrays have none.
func (m Model) Meta(key string) (string, bool) {
	if m.state() == nil || strings.IndexByte(key, 0) >= 0 {
		return "", false
	}
	return metaOf(uintptr(m), key)
}

func metaOf(h uintptr, key string) (string, bool) {
	return cString(func(b *byte, n uint64) int32 { return cModelMeta(h, key, b, n) })
}

// cString reads a string from a function with the habits of snprintf: it gives
// the length that it would have needed, negative when there is nothing.
func cString(read func(buf *byte, size uint64) int32) (string, bool) {
	buf := make([]byte, 256)
	for range 2 {
		n := read(&buf[0], uint64(len(buf)))
		if n < 0 {
			return "", false
		}
		if int(n) < len(buf) {
			return string(buf[:n]), true
		}
		buf = make([]byte, int(n)+1)
	}
	return "", false
}

// ChatTemplate is the Jinja template of the model, "" when it has none.
func (m Model) ChatTemplate() string {
	if m.state() == nil {
		return ""
	}
	return cModelTemplate(uintptr(m), 0)
}

// Vocab gives the vocabulary, 0 for a freed model.
func (m Model) Vocab() Vocab {
	if st := m.state(); st != nil {
		return st.vocab
	}
	return 0
}

// IsRecurrent says that the whole state is recurrent (Mamba, RWKV).
func (m Model) IsRecurrent() bool { return m.state() != nil && cModelIsRecurrent(uintptr(m)) }

// IsHybrid says that some layers are recurrent and some attend.
func (m Model) IsHybrid() bool { return m.state() != nil && cModelIsHybrid(uintptr(m)) }

// HasEncoder says that the model needs an encoder pass.
func (m Model) HasEncoder() bool { return m.state() != nil && cModelHasEncoder(uintptr(m)) }

func cBool(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}
