package worker

import (
	"bytes"
	"context"
	"crypto/sha1" //nolint:gosec // BEP 3 defines piece hashes by SHA-1; the load gate uses SHA-256
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/anacrolix/torrent"
	"github.com/anacrolix/torrent/metainfo"

	"neuron/engine/artifact/shelf"
	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/torrentfile"
)

// The two files that the engine puts into a shard folder.
const (
	manifestFile = "manifest.json"
	torrentFile  = "model.torrent"
)

// opened is a model's folder and torrent while they are in use.
type opened struct {
	m       *model
	shelf   *shelf.Shelf
	man     *manifest.Manifest
	info    *torrentfile.Info
	meta    []byte // the info dictionary
	adopted bool
	torrent *torrent.Torrent
	wanted  atomic.Pointer[[]bool] // pieces that the library may fetch; replaced whole

	// Guarded by m.mu.
	need     *manifest.Need // nil when adopted
	flushed  bool           // all wanted files are listed
	refused  int64          // bytes whose hash failed
	waiting  map[int]bool   // pieces whose commit failed
	seeds    []*seed
	seedsOut int // how many seeds the library does not have now
}

// openFolder reads what the engine put into the folder, checks it once more,
// and takes the folder.
func (m *model) openFolder(o order) (*opened, error) {
	raw, err := readCapped(filepath.Join(o.model.Dir, manifestFile), manifest.MaxBytes)
	if err != nil {
		return nil, err
	}
	signed, err := manifest.ParseSigned(raw)
	if err != nil {
		return nil, err
	}
	man := signed.Manifest
	if man.Model != m.id {
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "the folder holds model %s", man.Model.Short())
	}
	tor, err := readCapped(filepath.Join(o.model.Dir, torrentFile), torrentfile.MaxBytes)
	if err != nil {
		return nil, err
	}
	info, err := torrentfile.Parse(tor)
	if err == nil {
		err = info.Check(man)
	}
	if err != nil {
		return nil, err
	}
	meta, err := metainfo.Load(bytes.NewReader(tor))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "torrent: %w", err)
	}
	sh, err := shelf.Open(o.model.Dir, man, shelf.Options{
		Logger: m.log, KeepFree: o.limits.KeepFree, Listed: func(string) { m.wake() },
	})
	if err != nil {
		return nil, err
	}
	op := &opened{
		m: m, shelf: sh, man: man, info: info, meta: meta.InfoBytes, adopted: len(o.model.Adopted) > 0,
		waiting: map[int]bool{},
	}
	none := make([]bool, info.Pieces())
	op.wanted.Store(&none)
	return op, nil
}

// readCapped reads a file of at most most bytes.
func readCapped(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "%w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	switch {
	case err != nil:
		return nil, protocol.Errorf(protocol.CodeDataFolder, "%w", err)
	case int64(len(b)) > most:
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "%s is larger than %d bytes", filepath.Base(path), most)
	}
	return b, nil
}

// prove makes sure of content that the shelf did not write itself.
func (m *model) prove(ctx context.Context, op *opened, o order) error {
	progress := func(done, total int64) {
		m.mu.Lock()
		m.checked, m.toCheck = done, total
		m.mu.Unlock()
		m.changed()
	}
	defer func() {
		m.mu.Lock()
		m.checked, m.toCheck = 0, 0
		m.mu.Unlock()
	}()
	if op.adopted {
		return op.shelf.Adopt(ctx, o.model.Adopted, progress)
	}
	pieces := op.shelf.Unproven()
	if len(pieces) == 0 {
		return nil
	}
	done, total := int64(0), int64(0)
	for _, p := range pieces {
		total += op.shelf.PieceBytes(p)
	}
	return op.shelf.Recheck(ctx, pieces, func(piece int, data []byte) bool {
		done += int64(len(data))
		progress(done, total)
		return sha1.Sum(data) == op.hash(piece) //nolint:gosec // see the import
	})
}

// hash is the SHA-1 that the torrent has for a piece.
func (op *opened) hash(piece int) (sum [sha1.Size]byte) {
	copy(sum[:], op.info.Hashes[piece*sha1.Size:])
	return sum
}

// addTorrent hands the model to the library.
func (m *model) addTorrent(op *opened) error {
	t, fresh := m.client.AddTorrentOpt(torrent.AddTorrentOpts{
		InfoHash:  metainfo.NewHashFromHex(op.info.InfoHash),
		InfoBytes: op.meta,
		Storage: &store{
			shelf: op.shelf, committed: op.committed, rejected: op.rejected,
			wanted: func(piece int) bool { return (*op.wanted.Load())[piece] },
		},
		// What the shelf says of a piece is known; nothing is hashed at start.
		DisableInitialPieceCheck: true,
	})
	if !fresh {
		return protocol.Errorf(protocol.CodeModelInvalid, "another model has the same torrent")
	}
	if t.Info() == nil {
		t.Drop()
		return protocol.Errorf(protocol.CodeModelInvalid, "the BitTorrent library does not take the torrent of %s", op.man.Name)
	}
	op.torrent = t
	// The default handler stops the download for good.
	t.SetOnWriteChunkError(op.stumble)
	return nil
}

// closeFolder ends everything that openFolder and addTorrent began.
func (m *model) closeFolder(op *opened) {
	m.client.web.remove(op)
	c := m.counters(op)
	m.mu.Lock()
	m.open, m.trouble, m.retired = nil, nil, c
	m.mu.Unlock()
	if op.torrent != nil {
		op.torrent.Drop()
		m.client.forget(op.torrent)
	}
	if err := op.shelf.Close(); err != nil {
		m.log.Warn("Folder does not close", "error", err)
	}
}

// asTrouble gives every error of storage a code of the contract: what has none
// is a folder that cannot be used.
func asTrouble(err error) *protocol.Error {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e
	}
	return protocol.Errorf(protocol.CodeDataFolder, "%w", fmt.Errorf("storage: %w", err))
}
