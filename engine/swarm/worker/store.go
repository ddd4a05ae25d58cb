package worker

import (
	"context"
	"io"
	"sync"

	"github.com/anacrolix/torrent/metainfo"
	"github.com/anacrolix/torrent/storage"

	"neuron/engine/artifact/shelf"
)

// store is the library's storage on a shelf. Chunks go to the shelf's staging;
// only a piece whose hash matched reaches the files that stages map.
type store struct {
	shelf *shelf.Shelf
	// wanted says which pieces may be fetched, see Completion.
	wanted func(piece int) bool
	// The hooks are called without the library's lock.
	committed func(piece int, err error) // a hash matched; err: the shelf could not take it
	rejected  func(piece int, wasStaged bool)
}

// OpenTorrent implements storage.ClientImpl.
func (s *store) OpenTorrent(context.Context, *metainfo.Info, metainfo.Hash) (storage.TorrentImpl, error) {
	return storage.TorrentImpl{
		Piece: func(p metainfo.Piece) storage.PieceImpl { return &piece{s, p.Index()} },
		Close: func() error { return nil }, // the shelf is its owner's
	}, nil
}

// piece implements storage.PieceImpl, and io.WriterTo for hashing.
type piece struct {
	s     *store
	index int
}

// ReadAt implements io.ReaderAt.
func (p *piece) ReadAt(b []byte, off int64) (int, error) { return p.s.shelf.ReadAt(p.index, b, off) }

// WriteAt implements io.WriterAt.
func (p *piece) WriteAt(b []byte, off int64) (int, error) { return p.s.shelf.WriteAt(p.index, b, off) }

// Completion implements storage.PieceImpl. Of pieces that are not wanted it is
// unknown: the library's requests to web seeds run on through every piece that
// is known to be missing, wanted or not. Of others it is always known: an
// unknown one is never fetched. It has no error, which would stop the download
// for good.
func (p *piece) Completion() storage.Completion {
	complete := p.s.shelf.Complete(p.index)
	return storage.Completion{Ok: complete || p.s.wanted(p.index), Complete: complete}
}

// MarkComplete commits. The library takes the piece for complete whatever this
// returns; until the commit succeeds it is served from staging, whose bytes
// have matched the hash.
func (p *piece) MarkComplete() error {
	err := p.s.shelf.Commit(p.index)
	p.s.committed(p.index, err)
	return err
}

// MarkNotComplete rejects: the hash did not match, or bytes that should be
// there cannot be read.
func (p *piece) MarkNotComplete() error {
	staged := !p.s.shelf.Complete(p.index)
	err := p.s.shelf.Reject(p.index)
	p.s.rejected(p.index, staged)
	return err
}

// copyBuffer is how much is read at a time for hashing.
const copyBuffer = 256 << 10

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, copyBuffer); return &b }}

// WriteTo implements io.WriterTo.
func (p *piece) WriteTo(w io.Writer) (int64, error) {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	size := p.s.shelf.PieceBytes(p.index)
	done := int64(0)
	for done < size {
		n, err := p.s.shelf.ReadAt(p.index, (*buf)[:min(copyBuffer, size-done)], done)
		if n > 0 {
			if _, err := w.Write((*buf)[:n]); err != nil {
				return done, err
			}
			done += int64(n)
		}
		if err != nil && done < size {
			return done, err
		}
	}
	return done, nil
}
