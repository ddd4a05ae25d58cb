package llama

import (
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// LogLevel is ggml_log_level.
type LogLevel int32

const (
	LogNone     LogLevel = 0
	LogDebug    LogLevel = 1
	LogInfo     LogLevel = 2
	LogWarn     LogLevel = 3
	LogError    LogLevel = 4
	logContinue LogLevel = 5 // goes on with the line before; never handed out
)

// String gives the lower-case name.
func (l LogLevel) String() string {
	switch l {
	case LogDebug:
		return "debug"
	case LogInfo:
		return "info"
	case LogWarn:
		return "warn"
	case LogError:
		return "error"
	}
	return "none"
}

var (
	// void llama_log_set(ggml_log_callback log_callback, void * user_data);
	cLogSet func(callback, userData uintptr)
)

var logBinds = []bind{{libLlama, "llama_log_set", &cLogSet}}

const (
	logLineMax = 4096 // longer lines are cut
	logErrors  = 8    // error lines kept for Error.Detail
)

var logState struct {
	mu      sync.Mutex
	handler func(LogLevel, string)
	level   LogLevel
	line    []byte // unfinished line
	errors  [logErrors]string
	nErrors uint64 // error lines ever seen
	sizing  int    // calls whose buffer sizes are wanted
	sizes   []string
	cpuFile string // file name of the CPU backend that was loaded
}

// SetLog sets the receiver of libllama's log: whole lines without the newline.
// nil, the default, discards them. fn is called on the thread that logs, which
// may be one of libllama's: it must be quick, must not panic and must not call
// this package except SetLog.
func SetLog(fn func(level LogLevel, text string)) {
	logState.mu.Lock()
	logState.handler = fn
	logState.mu.Unlock()
}

// CPUVariant is the kind of CPU backend that was chosen for this machine, as in
// "haswell" or "apple_m1"; "" before Load.
func CPUVariant() string {
	logState.mu.Lock()
	defer logState.mu.Unlock()
	return cpuVariantOf(logState.cpuFile)
}

func cpuVariantOf(file string) string {
	file = strings.TrimPrefix(file, "lib")
	file = strings.TrimSuffix(file, filepath.Ext(file))
	return strings.TrimPrefix(file, "ggml-cpu-")
}

func installLog() {
	// void (*ggml_log_callback)(enum ggml_log_level level, const char * text, void * user_data);
	cLogSet(purego.NewCallback(logCallback), 0)
}

func logCallback(level, text, _ uintptr) uintptr {
	if text == 0 {
		return 0
	}
	logText(LogLevel(int32(level)), cBytes(text, logLineMax))
	return 0
}

// cBytes views the C string at p, at most limit bytes of it.
func cBytes(p uintptr, limit int) []byte {
	base := (*byte)(pointer(p))
	n := 0
	for n < limit && *(*byte)(unsafe.Add(unsafe.Pointer(base), n)) != 0 {
		n++
	}
	return unsafe.Slice(base, n)
}

// pointer turns an address of C memory into a pointer. Only for memory that Go
// did not allocate.
func pointer(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

func logText(level LogLevel, text []byte) {
	logState.mu.Lock()
	if level != logContinue {
		logState.level = level
	}
	for len(text) > 0 {
		part, rest, whole := cutLine(text)
		text = rest
		if room := logLineMax - len(logState.line); room > 0 {
			logState.line = append(logState.line, part[:min(len(part), room)]...)
		}
		if !whole {
			break
		}
		line, lvl, handler := string(logState.line), logState.level, logState.handler
		logState.line = logState.line[:0]
		noteLineLocked(lvl, line)
		if handler != nil && line != "" {
			logState.mu.Unlock()
			handler(lvl, line)
			logState.mu.Lock()
		}
	}
	logState.mu.Unlock()
}

func cutLine(text []byte) (part, rest []byte, whole bool) {
	for i, c := range text {
		if c == '\n' {
			return text[:i], text[i+1:], true
		}
	}
	return text, nil, false
}

func noteLineLocked(level LogLevel, line string) {
	if level == LogError {
		logState.errors[logState.nErrors%logErrors] = line
		logState.nErrors++
	}
	noteSizeLocked(line)
	if rest, ok := strings.CutPrefix(line, "load_backend: loaded CPU backend from "); ok {
		logState.cpuFile = filepath.Base(strings.ReplaceAll(rest, "\\", "/"))
	}
}

// logMark and logSince bracket a call: the error lines that came in between
// explain its failure. Lines of calls that ran at the same time mix in.
func logMark() uint64 {
	logState.mu.Lock()
	defer logState.mu.Unlock()
	return logState.nErrors
}

func logSince(mark uint64) string {
	logState.mu.Lock()
	defer logState.mu.Unlock()
	if logState.nErrors-mark > logErrors {
		mark = logState.nErrors - logErrors
	}
	var lines []string
	for ; mark < logState.nErrors; mark++ {
		lines = append(lines, strings.TrimSpace(logState.errors[mark%logErrors]))
	}
	return strings.Join(lines, "; ")
}
