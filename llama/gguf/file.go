package gguf

import (
	"fmt"
	"math"
	"os"
	"sync"
)

// File is one GGUF file mapped for reading. Its methods may be called by several
// goroutines, but nobody may touch tensor data once Close was called.
type File struct {
	path   string
	header *Header
	size   int64

	mu   sync.Mutex
	data []byte // the whole file; nil after Close
}

// Open reads the header with the default limits and maps the file. Header errors are
// *Error wrapped with the file's path. Whoever shortens the file while it is mapped makes
// readers of the lost pages crash; holes read as zeros.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("gguf: open: %w", err)
	}
	defer f.Close() // the map keeps the file alive
	st, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("gguf: open %s: %w", path, err)
	}
	if !st.Mode().IsRegular() {
		return nil, errf(CodeMagic, "%s is not a regular file", path)
	}
	h, err := ReadHeader(f, st.Size(), DefaultLimits())
	if err != nil {
		return nil, within(path, err)
	}
	if st.Size() > math.MaxInt {
		return nil, errf(CodeLimit, "%s is too large to be mapped on this computer", path)
	}
	b, err := mapFile(f, int(st.Size()))
	if err != nil {
		return nil, fmt.Errorf("gguf: map %s: %w", path, err)
	}
	return &File{path: path, header: h, size: st.Size(), data: b}, nil
}

// Header returns the file's header; it is shared, do not change it.
func (f *File) Header() *Header { return f.header }

// Path is the path that Open was given.
func (f *File) Path() string { return f.path }

// Size is the file's size in bytes when it was opened.
func (f *File) Size() int64 { return f.size }

// TensorData returns a view of a tensor's bytes, valid until Close and never to be
// written to. It is nil when the tensor does not lie in this file or after Close.
func (f *File) TensorData(t TensorInfo) []byte {
	n, err := t.Bytes()
	if err != nil {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	data := uint64(f.header.DataOffset)
	if f.data == nil || data > uint64(f.size) {
		return nil
	}
	have := uint64(f.size) - data
	if n > have || t.Offset > have-n {
		return nil
	}
	at := data + t.Offset
	return f.data[at : at+n : at+n]
}

// Close unmaps the file. Views of its tensors become invalid. Further calls do nothing.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.data == nil {
		return nil
	}
	b := f.data
	f.data = nil
	if err := unmapFile(b); err != nil {
		return fmt.Errorf("gguf: unmap %s: %w", f.path, err)
	}
	return nil
}
