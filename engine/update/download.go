package update

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/engine/update/feed"
	"neuron/internal/syserr"
)

const (
	// spare is what a package leaves free on the disk.
	spare = 256 << 20
	// tries is how often a broken transfer is taken up again without a byte of
	// progress; the pauses between grow from firstPause.
	tries      = 5
	firstPause = time.Second
	// tellEvery is the least time between two words of progress.
	tellEvery = 500 * time.Millisecond
)

// DownloadUpdate begins to fetch the release.
func (k *Keeper) DownloadUpdate(context.Context) (*localapi.Update, error) {
	u := k.Update()
	switch {
	case u.State == localapi.UpdateUnsupported:
		return nil, protocol.Errorf(protocol.CodeUnsupported, "%s", u.Reason)
	case u.Release == nil:
		return nil, protocol.Errorf(protocol.CodeNotFound, "no newer version is known")
	case u.Release.Name == "":
		return nil, protocol.Errorf(protocol.CodeNotFound, "Neuron %s has no package of the kind %s for this computer (%s/%s)%s", u.Release.Version, k.o.Kind, k.o.OS, k.o.Arch, seePage(u.Release.Page))
	case u.State == localapi.UpdateReady || u.State == localapi.UpdateDownloading:
		return &u, nil
	}
	k.mu.Lock()
	p := k.found.pack
	if p == nil {
		k.mu.Unlock()
		return nil, protocol.Errorf(protocol.CodeNotFound, "the release has changed; look again")
	}
	if err := k.room(p, k.had(p)); err != nil {
		k.mu.Unlock()
		return nil, err
	}
	k.fetching, k.err, k.refused = true, nil, false
	k.mu.Unlock()
	wake(k.orders)
	k.o.Changed()
	return k.answer()
}

func seePage(page string) string {
	if page == "" {
		return ""
	}
	return ": see " + page
}

// had are the bytes that were fetched before.
func (k *Keeper) had(p *feed.Package) int64 {
	info, err := os.Stat(k.part(p))
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}

// room says whether the rest of a package fits onto the disk. Error: disk_full.
func (k *Keeper) room(p *feed.Package, had int64) error {
	if err := os.MkdirAll(k.o.Dir, 0o700); err != nil {
		return protocol.Errorf(protocol.CodeDataFolder, "the folder for updates cannot be made: %w", err)
	}
	free, err := k.o.Free(k.o.Dir)
	if err != nil {
		k.o.Logger.Warn("The free space is not known", "error", err)
		return nil
	}
	if need := max(0, p.Size-had) + spare; free < need {
		return protocol.Errorf(protocol.CodeDiskFull, "the package needs %d MB and the disk has %d MB free", (need+999_999)/1_000_000, free/1_000_000)
	}
	return nil
}

// fetch fetches the package of the release that is known, and checks it.
func (k *Keeper) fetch(ctx context.Context) {
	k.mu.Lock()
	r := k.found
	k.mu.Unlock()
	var err error
	if r == nil || r.pack == nil {
		err = protocol.Errorf(protocol.CodeNotFound, "the release has changed; look again")
	} else {
		err = k.fetchPackage(ctx, r)
	}
	k.mu.Lock()
	k.fetching = false
	same := k.found == r || k.found != nil && r != nil && k.found.pack != nil && r.pack != nil && *k.found.pack == *r.pack
	switch told := protocol.AsError(err); {
	case ctx.Err() != nil: // what is there is taken up later
	case err != nil:
		k.err, k.refused = told, told.Code == protocol.CodeUpdateInvalid
	case same:
		k.ready, k.done = true, r.pack.Size
	}
	k.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		k.o.Logger.Warn("The package was not fetched", "code", string(protocol.AsError(err).Code), "error", err)
	} else if err == nil {
		k.o.Logger.Info("The package is fetched and checked", "version", r.feed.Version, "bytes", r.pack.Size)
	}
	k.o.Changed()
}

// fetchPackage fetches into the part file, taking up what is there, and renames
// it when its hash is right. A wrong one is removed. Errors: update_invalid,
// disk_full, data_folder, unavailable, cancelled.
func (k *Keeper) fetchPackage(ctx context.Context, r *release) error {
	p := r.pack
	address, err := p.Address(r.base)
	if err != nil {
		return err
	}
	if err := k.room(p, k.had(p)); err != nil {
		return err
	}
	f, err := os.OpenFile(k.part(p), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return disk(err)
	}
	err = k.transfer(ctx, f, p, address)
	if err == nil {
		err = disk(f.Sync())
	}
	if cerr := f.Close(); err == nil {
		err = disk(cerr)
	}
	if err != nil {
		return err
	}
	if err := verify(ctx, k.part(p), p); err != nil {
		if ctx.Err() == nil {
			err = errors.Join(err, os.Remove(k.part(p)))
		}
		return err
	}
	return disk(os.Rename(k.part(p), k.file(p)))
}

// disk is an error of the disk, for people.
func disk(err error) error {
	switch {
	case err == nil:
		return nil
	case syserr.DiskFull(err):
		return protocol.Errorf(protocol.CodeDiskFull, "the disk is full: %w", err)
	}
	return protocol.Errorf(protocol.CodeDataFolder, "the package cannot be written: %w", err)
}

// transfer fills f, trying again where a connection breaks.
func (k *Keeper) transfer(ctx context.Context, f *os.File, p *feed.Package, address string) error {
	left, pause := tries, firstPause
	for {
		at, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return disk(err)
		}
		if at == p.Size {
			return nil
		}
		if at > p.Size {
			if err := rewind(f); err != nil {
				return err
			}
			at = 0
		}
		err = k.attempt(ctx, f, p, address, at)
		if err == nil {
			continue // it is complete, or has begun anew
		}
		if ctx.Err() != nil {
			return protocol.Errorf(protocol.CodeCancelled, "the download was given up: %w", ctx.Err())
		}
		var l *lostError
		if !errors.As(err, &l) {
			return err
		}
		if now, serr := f.Seek(0, io.SeekEnd); serr == nil && now > at {
			left, pause = tries, firstPause
		}
		if left--; left <= 0 {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		pause *= 2
	}
}

func rewind(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return disk(err)
	}
	_, err := f.Seek(0, io.SeekStart)
	return disk(err)
}

// attempt makes one request for the bytes from at on.
func (k *Keeper) attempt(ctx context.Context, f *os.File, p *feed.Package, address string, at int64) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	header := http.Header{}
	if at > 0 {
		header.Set("Range", "bytes="+strconv.FormatInt(at, 10)+"-")
	}
	resp, err := k.get(ctx, address, header)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPartialContent && at > 0 && strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", at)):
	case resp.StatusCode == http.StatusOK:
		if at > 0 { // a server that does not resume
			if err := rewind(f); err != nil {
				return err
			}
			at = 0
		}
	case at > 0 && (resp.StatusCode == http.StatusRequestedRangeNotSatisfiable || resp.StatusCode == http.StatusPartialContent):
		return rewind(f) // the server has another file: from the beginning
	case resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests:
		return &lostError{protocol.Errorf(protocol.CodeUnavailable, "the server of the package answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))}
	default:
		return protocol.Errorf(protocol.CodeUnavailable, "the server of the package answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	if n := resp.ContentLength; n >= 0 && n != p.Size-at {
		return tooLarge(p, at+n)
	}
	// One byte more shows a package that does not end.
	quiet := time.AfterFunc(silence, cancel)
	defer quiet.Stop()
	told := time.Now()
	w := progress{f, func(n int) {
		quiet.Reset(silence)
		k.mu.Lock()
		at += int64(n)
		k.done = min(at, p.Size)
		k.mu.Unlock()
		if now := time.Now(); now.Sub(told) >= tellEvery {
			told = now
			k.o.Changed()
		}
	}}
	left := p.Size - at
	_, err = io.Copy(w, io.LimitReader(resp.Body, left+1))
	var werr *writeError
	switch {
	case errors.As(err, &werr):
		return disk(werr.err)
	case at > p.Size:
		return errors.Join(tooLarge(p, at), rewind(f))
	case at == p.Size:
		return nil
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	return lost(err)
}

func tooLarge(p *feed.Package, n int64) error {
	return protocol.Errorf(protocol.CodeUpdateInvalid, "the package is refused: it has %d bytes, and the list says %d", n, p.Size)
}

// progress writes and tells how much; its errors are the disk's.
type progress struct {
	f    *os.File
	tell func(n int)
}

type writeError struct{ err error }

func (e *writeError) Error() string { return e.err.Error() }
func (e *writeError) Unwrap() error { return e.err }

func (w progress) Write(b []byte) (int, error) {
	n, err := w.f.Write(b)
	w.tell(n)
	if err != nil {
		return n, &writeError{err}
	}
	return n, nil
}

// verify says whether a file is the package. Errors: update_invalid, not_found,
// cancelled.
func verify(ctx context.Context, path string, p *feed.Package) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return protocol.Errorf(protocol.CodeNotFound, "the package is not there any more: fetch it again")
	}
	if err != nil {
		return disk(err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(&cancelled{ctx, f}, p.Size+1))
	switch {
	case ctx.Err() != nil:
		return protocol.Errorf(protocol.CodeCancelled, "the check of the package was given up: %w", ctx.Err())
	case err != nil:
		return disk(err)
	case n != p.Size:
		return tooLarge(p, n)
	case hex.EncodeToString(h.Sum(nil)) != p.SHA256:
		return protocol.Errorf(protocol.CodeUpdateInvalid, "the package is refused: its SHA-256 is not the one that its publisher has signed")
	}
	return nil
}

// cancelled reads until ctx ends.
type cancelled struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelled) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(b)
}
