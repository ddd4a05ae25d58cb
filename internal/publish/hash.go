package publish

import (
	"context"
	"crypto/sha1" // BEP 3 builds on it
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
)

// plan says what to hash of files; each file's SHA-256 always is.
type plan struct {
	pieces, tensors bool
	workers         int
	progress        func(done, total int64)
}

// sums are the hashes of a manifest's files.
type sums struct {
	files, headers, tensors []manifest.Hash
	pieces                  []byte
}

func (s *sums) fill(m *manifest.Manifest) {
	ids := make([][sha256.Size]byte, len(m.Files))
	for i := range m.Files {
		m.Files[i].SHA256, m.Files[i].HeaderSHA256 = s.files[i], s.headers[i]
		ids[i] = s.files[i]
	}
	for i := range m.Tensors {
		m.Tensors[i].SHA256 = s.tensors[i]
	}
	m.Model = protocol.ModelIDOf(ids)
}

const (
	leastBuffer  = 1 << 20   // read at once when pieces are smaller
	mostBuffered = 128 << 20 // in all buffers together, large pieces excepted
)

// buffer is whole pieces of the torrent, the last ones of it excepted. Three
// readers share it; the last one to finish gives it back.
type buffer struct {
	data []byte
	at   int64 // torrent offset
	refs atomic.Int32
}

// hashFiles reads the files of m once, in order, and hashes as they pass: one
// goroutine each for files and for tensors, whose SHA-256 are chains, and
// several for pieces, which are independent. It returns when all have ended.
func hashFiles(ctx context.Context, paths []string, m *manifest.Manifest, p plan) (*sums, error) {
	n := workers(p.workers)
	size := max(m.Torrent.PieceLength, leastBuffer)
	depth := int(max(4, min(int64(n)+3, mostBuffered/size))) // one in each hand and one ahead
	free := make(chan *buffer, depth)
	for range depth {
		free <- &buffer{}
	}
	s := &sums{files: make([]manifest.Hash, len(m.Files)), headers: make([]manifest.Hash, len(m.Files)), tensors: make([]manifest.Hash, len(m.Tensors))}
	g, inner := errgroup.WithContext(ctx)
	var outs []chan *buffer
	// start runs count goroutines that see every buffer, or share them.
	start := func(count int, work func(*buffer)) {
		in := make(chan *buffer, depth)
		outs = append(outs, in)
		for range count {
			g.Go(func() error {
				for b := range in {
					if inner.Err() == nil {
						work(b)
					}
					if b.refs.Add(-1) == 0 {
						free <- b // has room for all
					}
				}
				return nil
			})
		}
	}
	start(1, chain(fileParts(m, s)))
	if p.tensors {
		start(1, chain(tensorParts(m, s)))
	}
	if p.pieces {
		s.pieces = make([]byte, m.Torrent.Pieces*sha1.Size)
		start(n, func(b *buffer) { hashPieces(b, m.Torrent.PieceLength, s.pieces) })
	}
	g.Go(func() error {
		defer func() {
			for _, out := range outs {
				close(out)
			}
		}()
		return readFiles(inner, paths, m, size, p.progress, free, outs)
	})
	if err := g.Wait(); err != nil {
		if ctx.Err() != nil {
			return nil, protocol.Errorf(protocol.CodeCancelled, "reading %s was stopped: %w", m.Name, ctx.Err())
		}
		return nil, err
	}
	return s, nil
}

// readFiles fills buffers from the files and hands each to every reader.
func readFiles(ctx context.Context, paths []string, m *manifest.Manifest, size int64, progress func(done, total int64), free <-chan *buffer, outs []chan *buffer) error {
	total := m.Size()
	r := &fileReader{paths: paths, files: m.Files}
	defer r.close()
	for at := int64(0); at < total; {
		var b *buffer
		select {
		case <-ctx.Done():
			return ctx.Err()
		case b = <-free:
		}
		n := min(size, total-at)
		if int64(cap(b.data)) < n {
			b.data = make([]byte, n)
		}
		b.data, b.at = b.data[:n], at
		if err := r.fill(b.data); err != nil {
			return err
		}
		at += n
		b.refs.Store(int32(len(outs)))
		for _, out := range outs {
			out <- b // has room for all
		}
		if progress != nil {
			progress(at, total)
		}
	}
	return r.end()
}

// fileReader reads files one after the other as one stream, and wants each to
// have exactly the size of the manifest.
type fileReader struct {
	paths []string
	files []manifest.File
	i     int // of the open file
	f     *os.File
	left  int64
}

func (r *fileReader) fill(b []byte) error {
	for len(b) > 0 {
		if r.f == nil {
			if err := r.open(); err != nil {
				return err
			}
		}
		n := min(int64(len(b)), r.left)
		if _, err := io.ReadFull(r.f, b[:n]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return changed(r.paths[r.i])
			}
			return fmt.Errorf("read %s: %w", r.paths[r.i], err)
		}
		b, r.left = b[n:], r.left-n
		if r.left == 0 {
			if err := r.end(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *fileReader) open() error {
	path, want := r.paths[r.i], r.files[r.i].Size
	f, err := os.Open(path)
	if err != nil {
		return openError(path, err)
	}
	r.f, r.left = f, want
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if !st.Mode().IsRegular() || st.Size() != want {
		return protocol.Errorf(protocol.CodeModelInvalid, "%s has %d bytes, expected %d", path, st.Size(), want)
	}
	return nil
}

// end closes a file that was read to its end; more bytes came while we read.
func (r *fileReader) end() error {
	if r.f == nil {
		return nil
	}
	var one [1]byte
	if n, err := r.f.Read(one[:]); n != 0 || !errors.Is(err, io.EOF) {
		return changed(r.paths[r.i])
	}
	r.close()
	r.i++
	return nil
}

func (r *fileReader) close() {
	if r.f != nil {
		_ = r.f.Close() // read only
		r.f = nil
	}
}

// hashPieces is SHA-1 of each piece in a buffer, put where it belongs.
func hashPieces(b *buffer, length int64, out []byte) {
	for k := int64(0); k < int64(len(b.data)); k += length {
		sum := sha1.Sum(b.data[k:min(k+length, int64(len(b.data)))])
		copy(out[(b.at+k)/length*sha1.Size:], sum[:])
	}
}

// part is a stretch [from, to) of the torrent with a hash of its own.
type part struct {
	from, to int64
	sum      *manifest.Hash
}

func fileParts(m *manifest.Manifest, s *sums) []part {
	out, starts := make([]part, len(m.Files)), m.Starts()
	for i := range out {
		out[i] = part{starts[i], starts[i+1], &s.files[i]}
	}
	return out
}

// tensorParts is headers and tensors in order, since tensors are sorted.
func tensorParts(m *manifest.Manifest, s *sums) []part {
	out, starts, k := make([]part, 0, len(m.Files)+len(m.Tensors)), m.Starts(), 0
	for i, f := range m.Files {
		out = append(out, part{starts[i], starts[i] + f.Header, &s.headers[i]})
		for ; k < len(m.Tensors) && m.Tensors[k].File == i; k++ {
			from := starts[i] + m.Tensors[k].Offset
			out = append(out, part{from, from + m.Tensors[k].Bytes, &s.tensors[k]})
		}
	}
	return out
}

// chain hashes parts, which ascend without overlap, as buffers pass in order.
func chain(parts []part) func(*buffer) {
	h := sha256.New()
	return func(b *buffer) {
		end := b.at + int64(len(b.data))
		for len(parts) > 0 && parts[0].from < end {
			p := parts[0]
			h.Write(b.data[max(p.from, b.at)-b.at : min(p.to, end)-b.at])
			if p.to > end {
				return
			}
			h.Sum(p.sum[:0])
			h.Reset()
			parts = parts[1:]
		}
	}
}
