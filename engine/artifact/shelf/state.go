package shelf

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"neuron/engine/manifest"
	"neuron/internal/atomicfile"
)

// The completion of pieces is a file of one byte per piece behind a header
// that says which torrent it is of. A byte is written alone, so that nothing
// of it can be torn; every value but two means that the file is not ours.
//
//	0  8 magic
//	8  4 number of pieces
//	12 8 piece length
//	20 32 SHA-256 of model id and info hash
//	52 4 CRC-32C of the 52 bytes before
//	56 pieces
const (
	stateName   = "pieces.state"
	stateMagic  = "NSHELF1\n"
	stateHeader = 56

	pieceMissing  = 0
	pieceComplete = 'C'
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func encodeStateHeader(m *manifest.Manifest) []byte {
	b := make([]byte, 0, stateHeader)
	b = append(b, stateMagic...)
	b = binary.LittleEndian.AppendUint32(b, uint32(m.Torrent.Pieces))
	b = binary.LittleEndian.AppendUint64(b, uint64(m.Torrent.PieceLength))
	sum := sha256.Sum256([]byte(string(m.Model) + " " + m.Torrent.InfoHash))
	b = append(b, sum[:]...)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// parseState reads the file's content; ok is false when it is damaged or of
// another torrent, and then nothing of it is taken.
func parseState(raw []byte, m *manifest.Manifest) (done []bool, ok bool) {
	if len(raw) != stateHeader+m.Torrent.Pieces || string(raw[:stateHeader]) != string(encodeStateHeader(m)) {
		return nil, false
	}
	done = make([]bool, m.Torrent.Pieces)
	for i, b := range raw[stateHeader:] {
		switch b {
		case pieceComplete:
			done[i] = true
		case pieceMissing:
		default:
			return nil, false
		}
	}
	return done, true
}

// openState opens the folder's state or begins a new one; fresh says that
// nothing was taken from an older one.
func openState(dir string, m *manifest.Manifest) (f *os.File, done []bool, fresh bool, err error) {
	path := filepath.Join(dir, stateName)
	raw, err := readSmall(path, int64(stateHeader+m.Torrent.Pieces))
	ok := false
	if err == nil {
		done, ok = parseState(raw, m)
	}
	if !ok {
		fresh, done = true, make([]bool, m.Torrent.Pieces)
		// Zeros, not a hole: a full disk must not keep a bit from being set.
		if err := atomicfile.Write(path, append(encodeStateHeader(m), make([]byte, m.Torrent.Pieces)...)); err != nil {
			return nil, nil, false, ioError("write the state of pieces", err)
		}
	}
	if f, err = os.OpenFile(path, os.O_RDWR, 0); err != nil {
		return nil, nil, false, ioError("open the state of pieces", err)
	}
	return f, done, fresh, nil
}

// provenName holds the boot of the computer in which the last doubt about
// partial files was settled: they are not synced, and after a loss of power
// hold less than the state says.
const provenName = "proven"

// bootID names this run of the computer; "" where the system does not tell.
func bootID() string {
	raw, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(raw)
}

// doubt marks partial files whose content has to be proven again, and reports
// whether there are any: the state of pieces was lost, or the computer has
// started since.
func (s *Shelf) doubt(fresh bool) (any bool) {
	raw, err := readSmall(filepath.Join(s.dir, provenName), 256)
	if !fresh && err == nil && string(raw) == bootID() {
		return false
	}
	for _, f := range s.plan.files {
		f.unsure = f.phase == partial
		any = any || f.unsure
	}
	return any
}

// noteProven says that there is no doubt left.
func (s *Shelf) noteProven() error {
	if err := atomicfile.Write(filepath.Join(s.dir, provenName), []byte(bootID())); err != nil {
		return ioError("note the state of pieces", err)
	}
	return nil
}

// unsure reports whether a piece has a share in a file that is in doubt.
func (s *Shelf) unsure(piece int) bool {
	files := s.plan.filesOf(piece)
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(files, func(f *file) bool { return f.unsure })
}

// readSmall reads a file of at most limit bytes; a longer one is cut off one
// byte behind it, so that its length tells.
func readSmall(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}

// setDone writes a piece's completion, on disk and then in memory; or the
// other way about when it is cleared, so that a reader never trusts what the
// disk does not say.
func (s *Shelf) setDone(piece int, done bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done[piece] == done {
		return nil
	}
	b := []byte{pieceMissing}
	if done {
		b[0] = pieceComplete
	}
	if _, err := s.state.WriteAt(b, stateHeader+int64(piece)); err != nil {
		return ioError(fmt.Sprintf("note piece %d", piece), err)
	}
	s.done[piece] = done
	if _, last := s.plan.piecesIn(0, s.plan.m.Files[0].Header); piece < last {
		s.metaErr = nil
	}
	for _, f := range s.plan.filesOf(piece) {
		if done {
			f.left--
		} else {
			f.left++
		}
	}
	return nil
}

func (s *Shelf) isDone(piece int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[piece]
}

// Complete reports whether the piece is committed. It is a hint: whether the
// disk kept its promise, the load gate (cut.Store.Verify) finds out.
func (s *Shelf) Complete(piece int) bool {
	if piece < 0 || piece >= s.plan.m.Torrent.Pieces {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[piece] || s.adopted != nil
}
