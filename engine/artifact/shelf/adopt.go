package shelf

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"sync"

	"neuron/engine/protocol"
	"neuron/llama/cut"
)

// adoptedName remembers the adopted files' hashes.
const adoptedName = "adopted.json"

// adopted are the publisher's files where their owner keeps them. They are
// only read, and never believed once they look changed.
type adopted struct {
	files []adoptedFile

	mu     sync.RWMutex
	closed bool
}

type adoptedFile struct {
	path string
	f    *os.File
	info os.FileInfo // when it was checked
}

func (s *Shelf) adoptedFiles() *adopted {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.adopted
}

// Adopt makes the publisher's own files, in the manifest's order, the source
// of all pieces: they are checked (size, SHA-256, remembered by path, size,
// times and inode) and only read. Afterwards every piece is Complete and
// WriteAt is dropped. progress gets bytes hashed and in all; it may be nil.
// A file that changes later makes its pieces unreadable (data_folder), never
// wrong. No files end the adoption; adopting again checks again.
//
// Errors: model_invalid (other content), not_found, data_folder, cancelled.
func (s *Shelf) Adopt(ctx context.Context, files []string, progress func(done, total int64)) error {
	s.op.Lock()
	defer s.op.Unlock()
	if s.closed {
		return errClosed()
	}
	var a *adopted
	if len(files) > 0 {
		var err error
		if a, err = s.openAdopted(ctx, files, progress); err != nil {
			return err
		}
	}
	s.mu.Lock()
	old := s.adopted
	s.adopted = a
	s.mu.Unlock()
	if old != nil {
		old.close()
	}
	return nil
}

func (s *Shelf) openAdopted(ctx context.Context, files []string, progress func(done, total int64)) (_ *adopted, err error) {
	m := s.plan.m
	if len(files) != len(m.Files) {
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "%d files for a model of %d", len(files), len(m.Files))
	}
	open := &adopted{}
	defer func() {
		if err != nil {
			open.close()
		}
	}()
	list := make([]cut.Whole, len(files))
	for i, path := range files {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, protocol.Errorf(protocol.CodeNotFound, "there is no file %s", path)
		}
		if err != nil {
			return nil, ioError("adopt a file", err)
		}
		info, err := f.Stat()
		if err != nil {
			_ = f.Close() // only read
			return nil, ioError("adopt a file", err)
		}
		open.files = append(open.files, adoptedFile{path, f, info})
		list[i] = cut.Whole{Path: path, Size: m.Files[i].Size, SHA256: m.Files[i].SHA256.String()}
	}
	bad, err := cut.VerifyWhole(ctx, filepath.Join(s.dir, adoptedName), list, cut.VerifyOptions{Progress: progress, Low: true})
	switch {
	case ctx.Err() != nil:
		return nil, protocol.Errorf(protocol.CodeCancelled, "adopt files: %w", ctx.Err())
	case err != nil:
		return nil, ioError("adopt files", err)
	case len(bad) > 0:
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "%s is not the file %q of the model", files[bad[0]], m.Files[bad[0]].Name)
	}
	for i := range open.files {
		if err := open.files[i].unchanged(); err != nil {
			return nil, err
		}
	}
	return open, nil
}

// unchanged compares the open file, and what its path names now, with what was
// checked.
func (f *adoptedFile) unchanged() error {
	now, err := f.f.Stat()
	if err != nil {
		return ioError("read an adopted file", err)
	}
	if now.Size() != f.info.Size() || !now.ModTime().Equal(f.info.ModTime()) {
		return protocol.Errorf(protocol.CodeDataFolder, "%s has changed since it was checked", f.path)
	}
	return nil
}

func (a *adopted) paths() []string {
	out := make([]string, len(a.files))
	for i, f := range a.files {
		out[i] = f.path
	}
	return out
}

// readAt reads the torrent's bytes at pos.
func (a *adopted) readAt(p *plan, b []byte, pos int64) (n int, err error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	if a.closed {
		return 0, errClosed()
	}
	i := sort.Search(len(p.m.Files), func(i int) bool { return p.starts[i+1] > pos })
	for n < len(b) && i < len(a.files) {
		f := &a.files[i]
		part := b[n:min(int64(len(b)), int64(n)+p.starts[i+1]-pos)]
		k, err := f.f.ReadAt(part, pos-p.starts[i])
		n, pos = n+k, pos+int64(k)
		if k < len(part) {
			return n, ioError("read an adopted file", short(err))
		}
		if err := f.unchanged(); err != nil {
			return 0, err
		}
		i++
	}
	return n, nil
}

func (a *adopted) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	for _, f := range a.files {
		_ = f.f.Close() // only read
	}
}
