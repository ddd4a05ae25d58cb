package llama

// Codes of Error. They are stable: callers and logs match on them.
const (
	CodeNativeMissing  = "native_missing"   // no folder with the shared libraries
	CodeNativeVersion  = "native_version"   // libraries of another version, or a symbol is absent
	CodeNativeLayout   = "native_layout"    // a struct of the library does not lie as this package expects
	CodeNativeLoaded   = "native_loaded"    // another folder was loaded before in this process
	CodeNotLoaded      = "not_loaded"       // Load was not called or did not succeed
	CodeInvalidHandle  = "invalid_handle"   // freed or foreign handle
	CodeInvalidArg     = "invalid_argument" // a value that libllama would answer with an abort
	CodeModelLoad      = "model_load"       // libllama refused the file
	CodeModelAborted   = "model_aborted"    // the progress function said stop
	CodeModelSave      = "model_save"       // the model could not be written
	CodeQuantize       = "quantize"         // quantizing was refused
	CodeContextCreate  = "context_create"   // libllama refused the context
	CodeDecodeNoSlot   = "decode_no_slot"   // no room in the KV cache for the batch
	CodeDecodeAborted  = "decode_aborted"   // the abort slot was set
	CodeDecodeInvalid  = "decode_invalid"   // the batch is not valid
	CodeDecodeFailed   = "decode_failed"    // computing failed
	CodeNoOutput       = "no_output"        // the row asked for was not marked as output
	CodeVocabNone      = "vocab_none"       // the model has no vocabulary
	CodeTokenize       = "tokenize"         // the text could not be tokenized
	CodeMemory         = "memory"           // the operation is not possible on this memory
	CodeState          = "state"            // a sequence state could not be saved or restored
	CodeTensor         = "tensor"           // range outside of the tensor, or no data behind it
	CodeSlots          = "slots"            // all callback slots are taken
	CodeThreadPool     = "thread_pool"      // no thread pool could be made
	CodeSamplerInvalid = "sampler_invalid"  // parameter, order or kind of a sampler
	CodeSamplerReject  = "sampler_rejected" // no token is possible, or the token is not allowed by the grammar
	CodeGrammar        = "grammar"          // the grammar does not parse
)

// Error is the error of every function of this package.
type Error struct {
	Code   string // one of the Code constants
	Op     string // what was tried, as in "decode"
	Detail string // for people; may hold the last error lines of libllama, never input text
}

// Error gives "llama: op: code: detail".
func (e *Error) Error() string {
	s := "llama: " + e.Op + ": " + e.Code
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}

// Is makes errors.Is(err, &Error{Code: CodeX}) true for every error of that code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

func fail(code, op, detail string) *Error { return &Error{Code: code, Op: op, Detail: detail} }
