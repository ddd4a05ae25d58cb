package llama

import (
	"os"
	"strconv"
	"strings"
)

// SaveToFile writes the model as one GGUF file. An existing file is replaced.
func (m Model) SaveToFile(path string) error {
	const op = "save model"
	if m.state() == nil {
		return fail(CodeInvalidHandle, op, "")
	}
	if strings.IndexByte(path, 0) >= 0 {
		return fail(CodeInvalidArg, op, "zero byte in the path")
	}
	// libllama has no way to report that it cannot write.
	f, err := os.Create(path)
	if err != nil {
		return fail(CodeModelSave, op, err.Error())
	}
	if err := f.Close(); err != nil {
		return fail(CodeModelSave, op, err.Error())
	}
	mark := logMark()
	cModelSave(uintptr(m), path)
	st, err := os.Stat(path)
	if err != nil || st.Size() == 0 {
		return fail(CodeModelSave, op, logSince(mark))
	}
	return nil
}

// Ftype is llama_ftype: what most tensors of a file are stored as.
type Ftype int32

const (
	FtypeF32    Ftype = 0
	FtypeF16    Ftype = 1
	FtypeQ4_0   Ftype = 2
	FtypeQ4_1   Ftype = 3
	FtypeQ8_0   Ftype = 7
	FtypeQ5_0   Ftype = 8
	FtypeQ5_1   Ftype = 9
	FtypeQ2_K   Ftype = 10
	FtypeQ3_K_M Ftype = 12
	FtypeQ4_K_S Ftype = 14
	FtypeQ4_K_M Ftype = 15
	FtypeQ5_K_S Ftype = 16
	FtypeQ5_K_M Ftype = 17
	FtypeQ6_K   Ftype = 18
	FtypeIQ4_NL Ftype = 25
	FtypeIQ4_XS Ftype = 30
	FtypeBF16   Ftype = 32
	FtypeMXFP4  Ftype = 38
)

var ftypeNames = map[Ftype]string{
	FtypeF32: "f32", FtypeF16: "f16", FtypeQ4_0: "q4_0", FtypeQ4_1: "q4_1", FtypeQ8_0: "q8_0", FtypeQ5_0: "q5_0",
	FtypeQ5_1: "q5_1", FtypeQ2_K: "q2_k", FtypeQ3_K_M: "q3_k_m", FtypeQ4_K_S: "q4_k_s", FtypeQ4_K_M: "q4_k_m",
	FtypeQ5_K_S: "q5_k_s", FtypeQ5_K_M: "q5_k_m", FtypeQ6_K: "q6_k", FtypeIQ4_NL: "iq4_nl", FtypeIQ4_XS: "iq4_xs",
	FtypeBF16: "bf16", FtypeMXFP4: "mxfp4",
}

// String gives the lower-case name, or the number of one that has none here.
func (f Ftype) String() string {
	if s, ok := ftypeNames[f]; ok {
		return s
	}
	return "ftype(" + strconv.Itoa(int(f)) + ")"
}

// ParseFtype is the inverse of String.
func ParseFtype(s string) (Ftype, bool) {
	for f, name := range ftypeNames {
		if name == strings.ToLower(s) {
			return f, true
		}
	}
	return 0, false
}

// Quantize writes in as out in another type. pure stores every matrix in that
// type; otherwise libllama keeps some in better ones. threads <= 0 takes all cores.
func Quantize(in, out string, ftype Ftype, threads int, pure bool) error {
	const op = "quantize"
	if !loaded() {
		return fail(CodeNotLoaded, op, "")
	}
	if strings.IndexByte(in+out, 0) >= 0 {
		return fail(CodeInvalidArg, op, "zero byte in a path")
	}
	if _, ok := ftypeNames[ftype]; !ok {
		return fail(CodeInvalidArg, op, ftype.String())
	}
	if a, err := os.Stat(in); err != nil {
		return fail(CodeQuantize, op, err.Error())
	} else if b, err := os.Stat(out); err == nil && os.SameFile(a, b) {
		return fail(CodeInvalidArg, op, "input and output are the same file")
	}
	p := cQuantizeDefaults()
	p.NThread = int32(max(0, min(threads, maxThreads)))
	p.Ftype = int32(ftype)
	p.Pure = cBool(pure)
	loadMu.Lock()
	defer loadMu.Unlock()
	mark := logMark()
	if rc := cModelQuantize(in, out, &p); rc != 0 {
		return fail(CodeQuantize, op, logSince(mark))
	}
	return nil
}
