package llama

import (
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/ebitengine/purego"
)

// Libraries that a symbol can come from. Windows looks a symbol up in exactly one.
const (
	libLlama = 1
	libGGML  = 2
	libBase  = 3
)

// bind ties one exported function to a Go variable: a *uintptr takes the bare
// address (for purego.SyscallN, integer arguments only), anything else is a
// pointer to a function variable.
type bind struct {
	lib  int
	name string
	to   any
}

// LLAMA_API and GGML_API functions of general use.
var (
	// const char * llama_version(void);
	cVersion func() string
	// const char * llama_print_system_info(void);
	cSystemInfo func() string
	// void llama_backend_init(void);
	cBackendInit func()
	// size_t llama_max_parallel_sequences(void);
	cMaxSequences func() uint64
	// bool llama_supports_gpu_offload(void);
	cSupportsGPU func() bool
	// void ggml_backend_load_all_from_path(const char * dir_path);
	cLoadBackends func(dir string)
)

var loadBinds = []bind{
	{libLlama, "llama_version", &cVersion},
	{libLlama, "llama_print_system_info", &cSystemInfo},
	{libLlama, "llama_backend_init", &cBackendInit},
	{libLlama, "llama_max_parallel_sequences", &cMaxSequences},
	{libLlama, "llama_supports_gpu_offload", &cSupportsGPU},
	{libGGML, "ggml_backend_load_all_from_path", &cLoadBackends},
}

func allBinds() []bind {
	var all []bind
	for _, group := range [][]bind{
		loadBinds, logBinds, layoutBinds, tensorBinds, ggufBinds, ggufSetBinds, deviceBinds, modelBinds, vocabBinds, contextBinds,
		memoryBinds, stateBinds, batchBinds, slotBinds, poolBinds, samplerBinds, userBinds,
	} {
		all = append(all, group...)
	}
	return all
}

var loader struct {
	mu  sync.Mutex
	dir string // set once everything succeeded
	err error  // a first failure is final: a half-loaded library cannot be unloaded
}

// maxSequences is LLAMA_MAX_SEQ of the library; written by Load only.
var maxSequences uint32

// Load opens the libraries in dir, checks version and struct layouts, loads the
// CPU variant (and accelerators, when their files are there) and starts the
// backend. Once per process: the same folder again is no error and does nothing,
// another folder is native_loaded, and a failure stays the answer.
func Load(dir string) error {
	const op = "load"
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fail(CodeNativeMissing, op, err.Error())
	}
	loader.mu.Lock()
	defer loader.mu.Unlock()
	if loader.err != nil {
		return loader.err
	}
	if loader.dir != "" {
		if loader.dir == abs {
			return nil
		}
		return fail(CodeNativeLoaded, op, "already loaded from "+loader.dir)
	}
	paths := map[int]string{}
	for _, l := range []struct {
		lib  int
		stem string
	}{{libLlama, "llama"}, {libGGML, "ggml"}, {libBase, "ggml-base"}} {
		if paths[l.lib], err = findLibrary(abs, l.stem); err != nil {
			return err // nothing was opened, so another folder may be tried
		}
	}
	if err := loadLocked(abs, paths); err != nil {
		loader.err = err
		return err
	}
	loader.dir = abs
	return nil
}

func loadLocked(dir string, paths map[int]string) error {
	const op = "load"
	libs := map[int]uintptr{}
	// The order matters: each library finds those it needs already in the process.
	for _, lib := range []int{libBase, libGGML, libLlama} {
		h, err := openLibrary(paths[lib])
		if err != nil {
			return fail(CodeNativeMissing, op, "open "+filepath.Base(paths[lib])+": "+err.Error())
		}
		libs[lib] = h
	}
	for _, b := range allBinds() {
		addr, err := librarySymbol(libs[b.lib], b.name)
		if err != nil || addr == 0 {
			return fail(CodeNativeVersion, op, "symbol "+b.name+" is missing")
		}
		if raw, ok := b.to.(*uintptr); ok {
			*raw = addr
			continue
		}
		purego.RegisterFunc(b.to, addr)
	}
	if v := strings.TrimPrefix(cVersion(), "v"); v != NativeVersion && !strings.HasPrefix(v, NativeVersion+"-") {
		return fail(CodeNativeVersion, op, "libllama says version "+v+", want "+NativeVersion)
	}
	if err := checkLayout(readDefaults()); err != nil {
		return err
	}
	installLog()
	installSlots()
	cLoadBackends(dir + string(os.PathSeparator))
	cBackendInit()
	maxSequences = uint32(cMaxSequences())
	return loadPool()
}

func loaded() bool {
	loader.mu.Lock()
	defer loader.mu.Unlock()
	return loader.dir != ""
}

// Version is the version that libllama reports, "" before Load.
func Version() string {
	if !loaded() {
		return ""
	}
	return cVersion()
}

// SystemInfo is libllama's line about the instruction sets in use, "" before Load.
func SystemInfo() string {
	if !loaded() {
		return ""
	}
	return cSystemInfo()
}
