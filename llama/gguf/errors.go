package gguf

import (
	"errors"
	"fmt"
	"strings"
)

// Codes of Error. They are stable: they reach logs, the local API and the tracker.
const (
	CodeMagic     = "gguf_magic"     // not a GGUF file
	CodeVersion   = "gguf_version"   // version or byte order that is not supported
	CodeTruncated = "gguf_truncated" // the file ends before what it claims to hold
	CodeLimit     = "gguf_limit"     // a count or a length exceeds Limits
	CodeDuplicate = "gguf_duplicate" // a key or tensor name occurs twice
	CodeType      = "gguf_type"      // unknown value or tensor type, or dimensions that do not suit it
	CodeOffset    = "gguf_offset"    // tensor data is not where ggml expects it
	CodeAlignment = "gguf_alignment" // alignment is not a power of two, or an offset breaks it
	CodeValue     = "gguf_value"     // an ill-formed name, key or value
	CodeSplit     = "gguf_split"     // the files of a split set contradict each other
)

// Error says what is wrong with a GGUF file or with what a caller wanted to write.
type Error struct {
	Code string // one of the Code constants
	Msg  string // one sentence, without the file's name
	Err  error  // the cause, or nil
}

func (e *Error) Error() string {
	if e.Err != nil {
		return "gguf: " + e.Msg + ": " + strings.TrimPrefix(e.Err.Error(), "gguf: ")
	}
	return "gguf: " + e.Msg
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// CodeOf returns the code of the first Error in err's chain, or "" if there is none.
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func errf(code, format string, args ...any) error {
	return &Error{Code: code, Msg: fmt.Sprintf(format, args...)}
}

// within says where an error happened and keeps its code.
func within(where string, err error) error {
	var e *Error
	if !errors.As(err, &e) {
		return fmt.Errorf("gguf: %s: %w", where, err)
	}
	return &Error{Code: e.Code, Msg: where, Err: err}
}

// short quotes a name for an error message and keeps a hostile one from flooding it.
func short(s string) string {
	const most = 80
	if len(s) > most {
		return fmt.Sprintf("%q...", s[:most])
	}
	return fmt.Sprintf("%q", s)
}
