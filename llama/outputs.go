package llama

import (
	"strconv"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Logits gives the logits of row i of the last Decode, one per token of the
// vocabulary: a view into C memory that is valid until the next call on the
// context. After an EvalHandler stopped the graph they are undefined.
func (c Context) Logits(i int) ([]float32, error) {
	const op = "logits"
	st, err := c.outputRow(op, i)
	if err != nil {
		return nil, err
	}
	p, _, _ := purego.SyscallN(aLogits, uintptr(c), uintptr(i))
	if p == 0 {
		return nil, fail(CodeNoOutput, op, "")
	}
	return unsafe.Slice((*float32)(pointer(p)), st.model.nVocab), nil
}

// Embeddings gives the embeddings of row i of the last Decode, Model.NEmbdOut
// wide, of a context made for embeddings and without pooling. Valid as Logits.
func (c Context) Embeddings(i int) ([]float32, error) {
	const op = "embeddings"
	st, err := c.outputRow(op, i)
	if err != nil {
		return nil, err
	}
	if !st.embeddings {
		return nil, fail(CodeNoOutput, op, "the context is not made for embeddings")
	}
	p, _, _ := purego.SyscallN(aEmbeddings, uintptr(c), uintptr(i))
	if p == 0 {
		return nil, fail(CodeNoOutput, op, "")
	}
	return unsafe.Slice((*float32)(pointer(p)), st.nEmbdOut), nil
}

// EmbeddingsSeq gives the pooled embeddings of a sequence, for models that pool
// (mean, CLS, last). Valid as Logits.
func (c Context) EmbeddingsSeq(seq int32) ([]float32, error) {
	const op = "sequence embeddings"
	st := c.state()
	if st == nil {
		return nil, fail(CodeInvalidHandle, op, "")
	}
	if pooling := cPooling(uintptr(c)); !st.embeddings || pooling < 1 || pooling > 3 {
		return nil, fail(CodeNoOutput, op, "the context does not pool embeddings")
	}
	if seq < 0 || uint32(seq) >= st.nSeqMax {
		return nil, fail(CodeInvalidArg, op, "sequence out of range")
	}
	p, _, _ := purego.SyscallN(aEmbeddingsSeq, uintptr(c), uintptr(seq))
	if p == 0 {
		return nil, fail(CodeNoOutput, op, "")
	}
	return unsafe.Slice((*float32)(pointer(p)), st.nEmbdOut), nil
}

func (c Context) outputRow(op string, i int) (*contextState, error) {
	st := c.state()
	if st == nil {
		return nil, fail(CodeInvalidHandle, op, "")
	}
	if i < 0 || i >= len(st.outputs) || !st.outputs[i] {
		return nil, fail(CodeNoOutput, op, "row "+strconv.Itoa(i)+" has no output")
	}
	return st, nil
}
