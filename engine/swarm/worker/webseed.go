package worker

import (
	"context"
	"crypto/sha1" //nolint:gosec // BEP 3 defines piece hashes by SHA-1; the load gate uses SHA-256
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/anacrolix/torrent/webseed"

	"neuron/internal/torrentfile"
)

// webGuard is the library's HTTP transport for web seeds (BEP 19). It checks
// each answer as it streams by: status, range, length, speed, and the hash of
// every whole piece. The library itself suspends a web seed that lied for a
// minute and then believes it again.
type webGuard struct {
	base *http.Transport
	log  *slog.Logger
	// stall is the longest silence of a server, slow the bytes per second that
	// it has to exceed while it is waited for.
	stall time.Duration
	slow  int64

	mu    sync.Mutex
	files map[string][]webFile // by URL; guarded by mu
}

const (
	webStall = 15 * time.Second
	webSlow  = 1 << 10
	// webSlowWindow is the time of waiting over which the speed counts.
	webSlowWindow = 30 * time.Second
)

// webFile is one file of a torrent as a web seed has it.
type webFile struct {
	owner webOwner
	seed  string // URL in the torrent
	start int64  // offset in the torrent
	size  int64
}

// webOwner is the model behind a web seed. All methods may be called from any
// goroutine.
type webOwner interface {
	// pieceAt is the piece that covers a torrent offset, its bounds and hash.
	pieceAt(offset int64) (index int, from, to int64, sum [sha1.Size]byte)
	// webFault takes note that a seed lied or failed.
	webFault(seed string, f webFault, why error)
	// webPart notes that a seed gave part of a piece, whose hash is therefore
	// not known yet.
	webPart(seed string, piece int)
	webGood(seed string)
}

// webFault says how bad it was.
type webFault int

const (
	webLied   webFault = iota // wrong bytes, or bytes nobody asked for: never again
	webFailed                 // stalled or cut short: later again
)

var (
	errWebStall = errors.New("the web seed stalled")
	errWebCut   = errors.New("the web seed cut its answer short")
	errWebHash  = errors.New("the web seed sent a wrong piece")
	errWebOther = errors.New("not a web seed of a wanted model")
)

func newWebGuard(log *slog.Logger) *webGuard {
	d := net.Dialer{Timeout: dialTimeout}
	return &webGuard{
		base: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         d.DialContext,
			TLSHandshakeTimeout: dialTimeout,
			MaxConnsPerHost:     8,
			IdleConnTimeout:     time.Minute,
			// A range of a packed file is not a packed range of the file.
			DisableCompression: true,
			ForceAttemptHTTP2:  true,
		},
		log: log, stall: webStall, slow: webSlow, files: map[string][]webFile{},
	}
}

func (g *webGuard) close() { g.base.CloseIdleConnections() }

// add registers a web seed's files; false when its URL is of no use.
func (g *webGuard) add(owner webOwner, seed string, t *torrentfile.Info) bool {
	u, err := url.Parse(seed)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return false
	}
	if !strings.HasSuffix(seed, "/") && !t.Single {
		return false // BEP 19 joins folder and path to it
	}
	start := int64(0)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, f := range t.Files {
		key, err := webURL(seed, t, f)
		if err != nil {
			return false
		}
		g.files[key] = append(g.files[key], webFile{owner, seed, start, f.Length})
		start += f.Length
	}
	return true
}

// remove forgets all web seeds of an owner.
func (g *webGuard) remove(owner webOwner) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, list := range g.files {
		kept := list[:0]
		for _, f := range list {
			if f.owner != owner {
				kept = append(kept, f)
			}
		}
		if len(kept) == 0 {
			delete(g.files, key)
		} else {
			g.files[key] = kept
		}
	}
}

// webURL is what the library asks for, in the form that net/url prints.
func webURL(seed string, t *torrentfile.Info, f torrentfile.File) (string, error) {
	if strings.HasSuffix(seed, "/") {
		parts := []string{t.Name}
		if !t.Single {
			parts = append(parts, f.Path...)
		}
		seed += webseed.EscapePath(parts)
	}
	u, err := url.Parse(seed)
	if err != nil {
		return "", err
	}
	return u.String(), nil
}

// RoundTrip implements http.RoundTripper.
func (g *webGuard) RoundTrip(req *http.Request) (*http.Response, error) {
	first := req // of a chain of redirects
	for first.Response != nil && first.Response.Request != nil {
		first = first.Response.Request
	}
	g.mu.Lock()
	files := append([]webFile(nil), g.files[first.URL.String()]...)
	g.mu.Unlock()
	if len(files) == 0 {
		return nil, errWebOther
	}
	from, to, ranged := askedRange(first, files[0].size)

	ctx, cancel := context.WithCancelCause(req.Context())
	timer := time.AfterFunc(g.stall, func() { cancel(errWebStall) })
	resp, err := g.base.RoundTrip(req.WithContext(ctx))
	timer.Stop()
	b := &webBody{g: g, files: files, ctx: ctx, cancel: cancel, left: to - from + 1}
	if err != nil {
		if errors.Is(context.Cause(ctx), errWebStall) {
			b.fault(webFailed, errWebStall)
		}
		cancel(err)
		return nil, err
	}
	if resp.StatusCode/100 == 3 {
		b.ReadCloser = resp.Body
		b.left = 1 << 20 // the library's client reads a little of it
		b.redirect = true
		resp.Body = b
		return resp, nil
	}
	if why := wrongAnswer(resp, from, to, ranged, files[0].size); why != nil {
		b.fault(webLied, why)
		cancel(why)
		return nil, errors.Join(why, resp.Body.Close())
	}
	b.ReadCloser = resp.Body
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusPartialContent {
		for _, f := range files {
			b.sums = append(b.sums, &webSum{f: f, at: f.start + from})
		}
	} else {
		b.redirect = true // an error page: not content
	}
	resp.Body = b
	return resp, nil
}

// askedRange reads the Range header that the library wrote.
func askedRange(req *http.Request, size int64) (from, to int64, ranged bool) {
	var rest string
	h := req.Header.Get("Range")
	if n, _ := fmt.Sscanf(h+" .", "bytes=%d-%d %s", &from, &to, &rest); n == 3 && rest == "." && from >= 0 && to >= from {
		return from, to, true
	}
	return 0, size - 1, false
}

// wrongAnswer says why an answer cannot be to the question.
func wrongAnswer(resp *http.Response, from, to int64, ranged bool, size int64) error {
	switch resp.StatusCode {
	case http.StatusOK:
		if ranged {
			return errors.New("the whole file instead of a range")
		}
	case http.StatusPartialContent:
		var a, b int64
		var total string
		n, _ := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%s", &a, &b, &total)
		if !ranged || n != 3 || a != from || b != to || total != "*" && total != fmt.Sprint(size) {
			return fmt.Errorf("range %.60q of %d bytes instead of %d-%d", resp.Header.Get("Content-Range"), size, from, to)
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return errors.New("its file is shorter")
	default:
		return nil
	}
	if n := resp.ContentLength; n >= 0 && n != to-from+1 {
		return fmt.Errorf("%d bytes instead of %d", n, to-from+1)
	}
	if e := resp.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return fmt.Errorf("content encoding %.40q", e)
	}
	return nil
}

// webBody watches an answer. Only its reader uses it.
type webBody struct {
	io.ReadCloser
	g        *webGuard
	files    []webFile
	ctx      context.Context //nolint:containedctx // of one request
	cancel   context.CancelCauseFunc
	left     int64 // bytes that may come
	redirect bool  // not content
	sums     []*webSum
	faulty   bool

	waited time.Duration // and got, since the window began
	got    int64
}

// Read implements io.Reader.
func (b *webBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), b.left)]
	timer := time.AfterFunc(b.g.stall, func() { b.cancel(errWebStall) })
	began := time.Now()
	n, err := b.ReadCloser.Read(p)
	b.waited += time.Since(began)
	timer.Stop()
	b.left -= int64(n)
	b.got += int64(n)
	for _, s := range b.sums {
		if why := s.write(p[:n]); why != nil {
			b.fault(webLied, why)
			b.cancel(why)
			return n, why
		}
	}
	if b.waited > webSlowWindow {
		if b.got < b.g.slow*int64(webSlowWindow/time.Second) {
			b.cancel(errWebStall)
		}
		b.waited, b.got = 0, 0
	}
	stalled := errors.Is(context.Cause(b.ctx), errWebStall)
	switch {
	case b.redirect:
	case b.left == 0:
		for _, f := range b.files {
			f.owner.webGood(f.seed)
		}
		return n, nil
	case stalled:
		b.fault(webFailed, errWebStall)
		return n, errWebStall
	case err != nil && b.ctx.Err() == nil: // else the library has no more use for it
		b.fault(webFailed, errWebCut)
		return n, errors.Join(errWebCut, err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *webBody) Close() error {
	err := b.ReadCloser.Close()
	b.cancel(context.Canceled)
	return err
}

// fault reports once.
func (b *webBody) fault(f webFault, why error) {
	if b.faulty {
		return
	}
	b.faulty = true
	for _, w := range b.files {
		w.owner.webFault(w.seed, f, why)
	}
}

// webSum hashes the pieces that go by in one answer.
type webSum struct {
	f    webFile
	at   int64 // torrent offset of the next byte
	h    hash.Hash
	n    int64 // bytes of the piece that h has
	part int   // 1 + the last piece that was reported as a part
}

func (s *webSum) write(p []byte) error {
	for len(p) > 0 {
		index, from, to, sum := s.f.owner.pieceAt(s.at)
		if s.at == from {
			s.h, s.n = sha1.New(), 0 //nolint:gosec // see the import
		}
		n := min(int64(len(p)), to-s.at)
		if s.h != nil {
			s.h.Write(p[:n]) // never fails
			s.n += n
		}
		if s.h == nil || to > s.f.start+s.f.size {
			// It began inside the piece, or the piece goes on in the next file.
			if s.part != index+1 {
				s.part = index + 1
				s.f.owner.webPart(s.f.seed, index)
			}
		}
		s.at += n
		p = p[n:]
		if s.at == to && s.h != nil && s.n == to-from && [sha1.Size]byte(s.h.Sum(nil)) != sum {
			return errWebHash
		}
	}
	return nil
}
