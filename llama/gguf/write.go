package gguf

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// WriteOptions shape the header region of a written file.
type WriteOptions struct {
	// Alignment of tensor data in bytes; 0 means what general.alignment among the
	// entries says, else 32. Any other alignment than 32 is stated by that key.
	Alignment uint64
	// DataOffset, when not 0, is where tensor data must begin: the header region is
	// filled up to exactly this size with PaddingKey. It must be a multiple of the
	// alignment and leave room for the header.
	DataOffset int64
}

// EncodeHeader encodes a version 3 header up to the first byte of the data section.
//
// Offsets of tensors that are all zero are assigned as by Layout; otherwise they must be
// those that Layout assigns, since ggml accepts no others. An entry PaddingKey among kvs
// is dropped: only DataOffset decides about it. Errors are *Error.
func EncodeHeader(kvs []KV, tensors []TensorInfo, o WriteOptions) ([]byte, error) {
	b, _, err := encode(kvs, tensors, o)
	return b, err
}

// encode also returns the tensors with their offsets and the resolved alignment in o.
func encode(kvs []KV, tensors []TensorInfo, o WriteOptions) (_ []byte, laid plan, err error) {
	kvs, align, err := prepareKVs(kvs, o.Alignment)
	if err != nil {
		return nil, plan{}, err
	}
	laid = plan{alignment: align}
	if laid.tensors, laid.dataSize, err = Layout(tensors, align); err != nil {
		return nil, plan{}, err
	}
	if err := checkGiven(tensors, laid.tensors); err != nil {
		return nil, plan{}, err
	}
	meta := make([]byte, 0, 4096)
	for _, kv := range kvs {
		meta = appendKV(meta, kv)
	}
	var infos []byte
	for _, t := range laid.tensors {
		infos = appendTensor(infos, t)
	}
	n := len(kvs)
	if o.DataOffset != 0 {
		pad, err := padding(int64(24+len(meta)+len(infos)), o.DataOffset, align)
		if err != nil {
			return nil, plan{}, err
		}
		if pad != nil {
			meta = appendKV(meta, *pad)
			n++
		}
	}
	b := make([]byte, 0, 24+len(meta)+len(infos)+int(align))
	b = append(b, "GGUF"...)
	b = binary.LittleEndian.AppendUint32(b, 3)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(tensors)))
	b = binary.LittleEndian.AppendUint64(b, uint64(n))
	b = append(b, meta...)
	b = append(b, infos...)
	end, _ := alignUp(uint64(len(b)), align)
	return append(b, make([]byte, end-uint64(len(b)))...), laid, nil
}

type plan struct {
	tensors   []TensorInfo
	alignment uint64
	dataSize  uint64 // with the final padding
}

// prepareKVs checks the entries, drops padding and settles the alignment.
func prepareKVs(kvs []KV, align uint64) ([]KV, uint64, error) {
	l := DefaultLimits()
	seen := make(map[string]bool, len(kvs))
	out := make([]KV, 0, len(kvs)+1)
	stated := uint64(0)
	for _, kv := range kvs {
		if err := checkName("key", kv.Key, int(l.KeyLen)); err != nil {
			return nil, 0, err
		}
		if seen[kv.Key] {
			return nil, 0, errf(CodeDuplicate, "key %s occurs twice", short(kv.Key))
		}
		seen[kv.Key] = true
		switch kv.Key {
		case PaddingKey:
			continue
		case AlignmentKey:
			var err error
			if stated, err = alignmentOf(kv.Value); err != nil {
				return nil, 0, err
			}
		}
		out = append(out, kv)
	}
	if align == 0 {
		if align = stated; align == 0 {
			align = DefaultAlignment
		}
	}
	if err := checkAlignment(align); err != nil {
		return nil, 0, err
	}
	switch {
	case stated != 0 && stated != align:
		return nil, 0, errf(CodeAlignment, "%s is %d, but alignment %d was asked for", AlignmentKey, stated, align)
	case stated == 0 && align != DefaultAlignment:
		out = append(out, KV{AlignmentKey, U32(uint32(align))})
	}
	return out, align, nil
}

// checkGiven checks names and the offsets that the caller gave against the laid out ones.
func checkGiven(given, laid []TensorInfo) error {
	seen := make(map[string]bool, len(given))
	assigned := false
	for _, t := range given {
		if err := checkName("tensor name", t.Name, maxNameLen); err != nil {
			return err
		}
		if seen[t.Name] {
			return errf(CodeDuplicate, "tensor %s occurs twice", short(t.Name))
		}
		seen[t.Name] = true
		assigned = assigned || t.Offset != 0
	}
	if !assigned {
		return nil
	}
	for i, t := range given {
		if t.Offset != laid[i].Offset {
			return errf(CodeOffset, "tensor %s is to begin at %d of the data section, ggml expects %d", short(t.Name), t.Offset, laid[i].Offset)
		}
	}
	return nil
}

// padding returns the entry that makes a header of n bytes end at dataOffset, or nil if
// alignment alone does it.
func padding(n, dataOffset int64, align uint64) (*KV, error) {
	if dataOffset < 0 || uint64(dataOffset)%align != 0 {
		return nil, errf(CodeAlignment, "data offset %d is not a multiple of %d", dataOffset, align)
	}
	if end, ok := alignUp(uint64(n), align); ok && end == uint64(dataOffset) {
		return nil, nil
	}
	const cost = 8 + int64(len(PaddingKey)) + 4 + 8
	room := dataOffset - n - cost
	if room < 0 || uint64(room) > DefaultLimits().StringLen {
		return nil, errf(CodeLimit, "a header of %d bytes cannot be padded to %d", n, dataOffset)
	}
	return &KV{PaddingKey, String(strings.Repeat(" ", int(room)))}, nil
}

func appendKV(b []byte, kv KV) []byte {
	b = appendString(b, kv.Key)
	b = binary.LittleEndian.AppendUint32(b, uint32(kv.Value.typ))
	return appendValue(b, kv.Value)
}

func appendTensor(b []byte, t TensorInfo) []byte {
	b = appendString(b, t.Name)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(t.Dims)))
	for _, d := range t.Dims {
		b = binary.LittleEndian.AppendUint64(b, d)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(t.Type))
	return binary.LittleEndian.AppendUint64(b, t.Offset)
}

// WriteFile writes a whole file. data is called once per tensor in order and must write
// exactly the tensor's Bytes. The file appears under path complete and synced to disk, or
// not at all: it is written beside it under a temporary name and renamed.
func WriteFile(path string, kvs []KV, tensors []TensorInfo, data func(i int, w io.Writer) error, o WriteOptions) (err error) {
	head, laid, err := encode(kvs, tensors, o)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return fmt.Errorf("gguf: write %s: %w", filepath.Base(path), err)
	}
	defer func() {
		if err != nil {
			f.Close() // a second Close is harmless, and the first error matters
			os.Remove(f.Name())
			err = within("write "+filepath.Base(path), err)
		}
	}()
	w := bufio.NewWriterSize(f, 1<<20)
	if _, err := w.Write(head); err != nil {
		return err
	}
	if err := writeTensors(w, laid, data); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if err := f.Chmod(0o644); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

func writeTensors(w io.Writer, laid plan, data func(i int, w io.Writer) error) error {
	zeros := make([]byte, min(laid.alignment, 1<<16))
	for i, t := range laid.tensors {
		size, err := t.Bytes()
		if err != nil {
			return err
		}
		cw := &exactWriter{w: w, left: size}
		if err := data(i, cw); err != nil {
			return within("tensor "+short(t.Name), err)
		}
		if cw.left != 0 {
			return errf(CodeTruncated, "tensor %s: %d bytes of %d are missing", short(t.Name), cw.left, size)
		}
		end, _ := alignUp(size, laid.alignment)
		for pad := end - size; pad > 0; {
			n := min(pad, uint64(len(zeros)))
			if _, err := w.Write(zeros[:n]); err != nil {
				return err
			}
			pad -= n
		}
	}
	return nil
}

// exactWriter refuses more bytes than a tensor has.
type exactWriter struct {
	w    io.Writer
	left uint64
}

func (e *exactWriter) Write(p []byte) (int, error) {
	if uint64(len(p)) > e.left {
		return 0, errf(CodeOffset, "%d bytes more than the tensor has", uint64(len(p))-e.left)
	}
	n, err := e.w.Write(p)
	e.left -= uint64(n)
	return n, err
}
