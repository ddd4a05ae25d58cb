package receipt

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
	"neuron/internal/filelock"
	"neuron/internal/syserr"
)

// The spool's file: the line spoolMagic, then records of length u32, CRC-32C
// u32 over type and content, type u8, content, little-endian. Type 1 is a
// signed receipt, type 2 the id of one that the tracker has settled.
const (
	spoolName  = "receipts.spool"
	spoolLock  = "receipts.lock"
	spoolMagic = "neuron-receipts-1\n"

	recordHead    = 9
	recordReceipt = 1
	recordSettled = 2
	receiptRecord = recordHead + protocol.SignedReceiptSize
)

// compactAbove is how many bytes of settled records the file may hold before
// it is written anew.
const compactAbove = 1 << 20

// minSpool is the smallest bound of a spool that makes sense, in bytes.
const minSpool = 16 << 10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// spool keeps signed receipts until the tracker has settled them. It is an
// append-only file, written anew now and then. It is not safe for concurrent
// use: the book guards it.
//
// What was appended survives the death of the process at any instant, and a
// loss of power once sync has returned. A torn or damaged record ends the
// file: what lies behind is dropped, and reported. The file never exceeds max
// bytes: the oldest receipts make room for new ones, and are counted in
// dropped.
type spool struct {
	path string
	max  int64
	lock *filelock.Lock
	f    *os.File

	size    int64 // of the file, all of it good records
	broken  bool  // bytes behind size could not be cut off
	live    []*record
	gone    int // settled entries in live
	byID    map[protocol.Hash]*record
	dropped int64 // for want of room, since opening
	torn    int64 // bytes that opening had to drop
}

// record is a receipt that waits.
type record struct {
	id protocol.Hash
	at int64 // of its content in the file
	ok bool  // still waits
}

// openSpool opens or makes the spool in dir, which exists. Codes: data_folder,
// already_running.
func openSpool(dir string, maxBytes int64) (_ *spool, err error) {
	lock, err := filelock.Try(filepath.Join(dir, spoolLock))
	switch {
	case errors.Is(err, filelock.ErrLocked):
		return nil, protocol.Errorf(protocol.CodeAlreadyRunning, "another process uses the receipts in %s", dir)
	case err != nil:
		return nil, diskError("lock the receipts", err)
	}
	s := &spool{path: filepath.Join(dir, spoolName), max: max(maxBytes, minSpool), lock: lock}
	if err := s.load(); err != nil {
		lock.Unlock()
		return nil, err
	}
	return s, nil
}

// diskError gives an error of the file system its code.
func diskError(what string, err error) error {
	if syserr.DiskFull(err) {
		return protocol.Errorf(protocol.CodeDiskFull, "%s: %w", what, err)
	}
	return protocol.Errorf(protocol.CodeDataFolder, "%s: %w", what, err)
}

// load reads the file and cuts off what is not whole.
func (s *spool) load() error {
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return diskError("open the receipts", err)
	}
	s.f, s.live, s.gone, s.byID = f, nil, 0, map[protocol.Hash]*record{}
	good, err := s.scan()
	if err == nil {
		var total int64
		if total, err = f.Seek(0, io.SeekEnd); err == nil && total > good {
			s.torn += total - good
			err = f.Truncate(good)
		}
	}
	if err == nil && good == 0 {
		_, err = f.WriteAt([]byte(spoolMagic), 0)
		good = int64(len(spoolMagic))
	}
	if err != nil {
		return errors.Join(diskError("read the receipts", err), f.Close())
	}
	s.size, s.broken = good, false
	return nil
}

// scan reads records and returns where the good ones end: 0 when not even the
// first line is there.
func (s *spool) scan() (int64, error) {
	r := io.NewSectionReader(s.f, 0, 1<<62)
	buf := make([]byte, protocol.SignedReceiptSize)
	ended := func(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
	first := buf[:len(spoolMagic)]
	if _, err := io.ReadFull(r, first); err != nil || string(first) != spoolMagic {
		if err != nil && !ended(err) {
			return 0, err
		}
		return 0, nil
	}
	at := int64(len(spoolMagic))
	br := bufio.NewReaderSize(r, 64<<10)
	for {
		var head [recordHead]byte
		if _, err := io.ReadFull(br, head[:]); err != nil {
			if ended(err) {
				err = nil
			}
			return at, err
		}
		n := binary.LittleEndian.Uint32(head[:])
		typ := head[8]
		if !(typ == recordReceipt && n == protocol.SignedReceiptSize || typ == recordSettled && n == uint32(len(protocol.Hash{}))) {
			return at, nil
		}
		if _, err := io.ReadFull(br, buf[:n]); err != nil {
			if ended(err) {
				err = nil
			}
			return at, err
		}
		if checksum(typ, buf[:n]) != binary.LittleEndian.Uint32(head[4:]) {
			return at, nil
		}
		if typ == recordReceipt {
			s.note((&protocol.SignedReceipt{Body: buf[:protocol.ReceiptSize]}).ID(), at+recordHead)
		} else {
			s.forget(protocol.Hash(buf[:n]))
		}
		at += recordHead + int64(n)
	}
}

func checksum(typ byte, content []byte) uint32 {
	return crc32.Update(crc32.Checksum([]byte{typ}, castagnoli), castagnoli, content)
}

func appendRecord(b []byte, typ byte, content []byte) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(content)))
	b = binary.LittleEndian.AppendUint32(b, checksum(typ, content))
	return append(append(b, typ), content...)
}

func (s *spool) note(id protocol.Hash, at int64) {
	r := &record{id: id, at: at, ok: true}
	s.live = append(s.live, r)
	s.byID[id] = r
}

// forget drops a receipt from memory; false when it is not there.
func (s *spool) forget(id protocol.Hash) bool {
	r := s.byID[id]
	if r == nil {
		return false
	}
	r.ok = false
	delete(s.byID, id)
	s.gone++
	if s.gone > 64 && s.gone > len(s.live)/2 {
		kept := s.live[:0]
		for _, r := range s.live {
			if r.ok {
				kept = append(kept, r)
			}
		}
		clear(s.live[len(kept):])
		s.live, s.gone = kept, 0
	}
	return true
}

// len is the number of receipts that wait.
func (s *spool) len() int { return len(s.byID) }

func (s *spool) liveBytes() int64 {
	return int64(len(spoolMagic)) + int64(s.len())*receiptRecord
}

// append stores a signed receipt; one that waits already is not stored again.
func (s *spool) append(sr *protocol.SignedReceipt) error {
	id := sr.ID()
	if s.byID[id] != nil {
		return nil
	}
	if s.size+receiptRecord > s.max || s.broken {
		if err := s.makeRoom(); err != nil {
			return err
		}
	}
	at := s.size + recordHead
	if err := s.write(appendRecord(nil, recordReceipt, sr.Encode())); err != nil {
		return err
	}
	s.note(id, at)
	return nil
}

// makeRoom writes the file anew. Where receipts that wait leave no room, the
// oldest tenth of the space is taken from them.
func (s *spool) makeRoom() error {
	if s.liveBytes()+receiptRecord > s.max {
		for _, r := range append([]*record(nil), s.live...) {
			if s.liveBytes()+receiptRecord <= s.max*9/10 {
				break
			}
			if r.ok {
				s.forget(r.id)
				s.dropped++
			}
		}
	}
	return s.compact()
}

// write appends whole records, or nothing.
func (s *spool) write(b []byte) error {
	if _, err := s.f.WriteAt(b, s.size); err != nil {
		// What was written in part must not stay in front of later records.
		if cut := s.f.Truncate(s.size); cut != nil {
			s.broken = true
			err = errors.Join(err, cut)
		}
		return diskError("store a receipt", err)
	}
	s.size += int64(len(b))
	return nil
}

// stored is a receipt in its wire form.
type stored struct {
	id  protocol.Hash
	raw []byte
}

// oldest reads up to n receipts that wait, oldest first. One that is no longer
// what was stored is dropped; the error tells of it.
func (s *spool) oldest(n int) (out []stored, err error) {
	for _, r := range append([]*record(nil), s.live...) {
		if len(out) == n {
			break
		}
		if !r.ok {
			continue
		}
		b := make([]byte, protocol.SignedReceiptSize)
		if _, e := s.f.ReadAt(b, r.at); e != nil {
			return out, diskError("read a receipt", e)
		}
		if (&protocol.SignedReceipt{Body: b[:protocol.ReceiptSize]}).ID() != r.id {
			s.forget(r.id)
			s.dropped++
			err = protocol.Errorf(protocol.CodeReceiptInvalid, "the stored receipt %s was damaged on the disk", r.id)
			continue
		}
		out = append(out, stored{r.id, b})
	}
	return out, err
}

// settle removes receipts that need not be sent again. When it fails they are
// sent again after a restart, which does no harm.
func (s *spool) settle(ids []protocol.Hash) error {
	var b []byte
	for _, id := range ids {
		if s.forget(id) {
			b = appendRecord(b, recordSettled, id[:])
		}
	}
	if len(b) == 0 {
		return nil
	}
	if s.size-s.liveBytes() > compactAbove || s.size+int64(len(b)) > s.max || s.broken {
		return s.compact()
	}
	return s.write(b)
}

// compact writes the receipts that wait into a new file and puts it in the
// place of the old one.
func (s *spool) compact() error {
	old := s.f
	err := atomicfile.WriteFunc(s.path, func(f *os.File) error {
		w := bufio.NewWriterSize(f, 64<<10)
		if _, err := io.WriteString(w, spoolMagic); err != nil {
			return err
		}
		buf := make([]byte, protocol.SignedReceiptSize)
		for _, r := range s.live {
			if !r.ok {
				continue
			}
			if _, err := old.ReadAt(buf, r.at); err != nil {
				return err
			}
			if _, err := w.Write(appendRecord(nil, recordReceipt, buf)); err != nil {
				return err
			}
		}
		if err := w.Flush(); err != nil {
			return err
		}
		return old.Close() // Windows renames over no open file
	})
	if err != nil {
		err = diskError("write the receipts anew", err)
		if _, e := old.Stat(); e == nil {
			return err // still open, nothing has changed
		}
	}
	// Reading it again counts nothing twice: what is torn was known before.
	return errors.Join(err, s.load())
}

// sync makes all that was appended safe from a loss of power.
func (s *spool) sync() error {
	if err := s.f.Sync(); err != nil {
		return diskError("sync the receipts", err)
	}
	return nil
}

func (s *spool) close() error {
	defer s.lock.Unlock()
	if err := errors.Join(s.f.Sync(), s.f.Close()); err != nil && !errors.Is(err, fs.ErrClosed) {
		return diskError("close the receipts", err)
	}
	return nil
}
