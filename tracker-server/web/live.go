package web

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// Bounds of the event stream.
const (
	maxStreams           = 200
	maxStreamsPerAddress = 16
	refresh              = time.Second
	// share bounds how much of the time goes into looking at the network: what
	// took t to make is not made again before share*t have passed.
	share = 50
	// maxFrames bounds the encoded updates in memory: one for each rendering that
	// viewers lag behind.
	maxFrames = 16
)

// part is one element of the page that changes by itself.
type part struct {
	html []byte
	gen  uint64 // of the rendering that changed it last
}

// list is an element whose children are parts.
type list struct {
	keys []string
	gen  uint64
}

// board is the shared rendering of the summary page. All viewers get the same
// bytes; it is made at most once a refresh, and only while somebody looks.
type board struct {
	src  Source
	now  func() time.Time
	boot string // tells this process's generations from those of an earlier one

	mu     sync.Mutex
	gen    uint64
	after  time.Time // no new rendering before; of the real clock
	view   *view
	parts  map[string]*part
	lists  map[string]*list
	frames map[uint64][]byte // of this generation, by where they begin
	charts chartCache

	viewers int
	perIP   map[netip.Addr]int
}

func newBoard(src Source, now func() time.Time) *board {
	var raw [8]byte
	rand.Read(raw[:]) // never fails (crypto/rand)
	return &board{
		src: src, now: now, boot: hex.EncodeToString(raw[:]), parts: map[string]*part{}, lists: map[string]*list{}, perIP: map[netip.Addr]int{},
	}
}

// refreshed returns the newest view, making a new one when it is time.
func (b *board) refreshed() (*view, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refreshLocked()
}

func (b *board) refreshLocked() (*view, error) {
	start := time.Now()
	if b.view != nil && start.Before(b.after) {
		return b.view, nil
	}
	v := makeView(b.src, b.now())
	charts := b.charts.get(b.src, v.Now)
	v.Charts, v.Measured, v.Credit = charts.charts, charts.measured, charts.credit
	parts, lists, err := v.render()
	if err != nil {
		return nil, err
	}
	next := b.gen + 1
	changed := false
	for key, html := range parts {
		if old := b.parts[key]; old != nil && bytes.Equal(old.html, html) {
			continue
		}
		b.parts[key], changed = &part{html, next}, true
	}
	for key := range b.parts {
		if parts[key] == nil {
			delete(b.parts, key)
		}
	}
	for id, keys := range lists {
		if old := b.lists[id]; old != nil && slices.Equal(old.keys, keys) {
			continue
		}
		b.lists[id], changed = &list{keys, next}, true
	}
	if changed {
		b.gen, b.frames = next, map[uint64][]byte{}
	}
	b.view = v
	// Half a refresh, since the tickers of viewers are not in step.
	b.after = start.Add(max(refresh/2, share*time.Since(start)))
	return v, nil
}

// page returns what the summary page is filled with.
func (b *board) page() (summary, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, err := b.refreshLocked()
	if err != nil {
		return summary{}, err
	}
	s := summary{View: v, Since: b.since(), Parts: make(map[string]template.HTML, len(b.parts)), Lists: make(map[string][]template.HTML, len(b.lists))}
	for key, p := range b.parts {
		s.Parts[key] = template.HTML(p.html)
	}
	for id, l := range b.lists {
		for _, key := range l.keys {
			s.Lists[id] = append(s.Lists[id], s.Parts[key])
		}
	}
	return s, nil
}

// summary is what the template of the summary page sees.
type summary struct {
	View  *view
	Since string
	Parts map[string]template.HTML
	Lists map[string][]template.HTML
}

func (b *board) since() string { return b.boot + "-" + strconv.FormatUint(b.gen, 10) }

// parse finds the generation that a viewer has; 0 for one that is not of this
// process.
func (b *board) parse(since string) uint64 {
	boot, n, _ := strings.Cut(since, "-")
	gen, err := strconv.ParseUint(n, 10, 64)
	if boot != b.boot || err != nil {
		return 0
	}
	return gen
}

// update is one event: elements to replace, and lists to put in order.
type update struct {
	Set   map[string]string   `json:"set,omitempty"`
	Lists map[string][]string `json:"lists,omitempty"`
}

// frame returns the event that brings a viewer from a generation to the newest
// one, or nil when there is nothing new.
func (b *board) frame(from uint64) (raw []byte, gen uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.refreshLocked(); err != nil {
		return nil, 0, err
	}
	if from == b.gen {
		return nil, from, nil
	}
	if from > b.gen {
		from = 0 // not one of ours
	}
	if raw = b.frames[from]; raw != nil {
		return raw, b.gen, nil
	}
	u := update{Set: map[string]string{}, Lists: map[string][]string{}}
	for key, p := range b.parts {
		if p.gen > from {
			u.Set[key] = string(p.html)
		}
	}
	for id, l := range b.lists {
		if l.gen > from {
			u.Lists[id] = l.keys
		}
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(u); err != nil { // one line, with a newline at its end
		return nil, 0, fmt.Errorf("encode an update of the status page: %w", err)
	}
	raw = fmt.Appendf(nil, "id: %s\ndata: %s\n", b.since(), body.Bytes())
	if len(b.frames) < maxFrames {
		b.frames[from] = raw
	}
	return raw, b.gen, nil
}

func (b *board) enter(ip netip.Addr) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.viewers >= maxStreams {
		return protocol.Errorf(protocol.CodeUnavailable, "%d others look at the page already", maxStreams)
	}
	if b.perIP[ip] >= maxStreamsPerAddress {
		return protocol.Errorf(protocol.CodeRateLimited, "this address looks at the page %d times already", maxStreamsPerAddress)
	}
	b.viewers++
	b.perIP[ip]++
	return nil
}

func (b *board) leave(ip netip.Addr) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.viewers--
	if b.perIP[ip]--; b.perIP[ip] <= 0 {
		delete(b.perIP, ip)
	}
}

// events serves GET /events[?since=]: the parts of the summary page, as they
// change. It ends with the request, which ends with the server, or with a
// viewer that does not take an event within ten seconds.
func (b *board) events(w http.ResponseWriter, r *http.Request) {
	ip := address(r)
	if err := b.enter(ip); err != nil {
		writeError(w, err)
		return
	}
	defer b.leave(ip)
	since := r.Header.Get("Last-Event-ID")
	if since == "" {
		since = r.URL.Query().Get("since")
	}
	gen := b.parse(since)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(w)
	send := func(out []byte) bool {
		_ = rc.SetWriteDeadline(time.Now().Add(10 * time.Second)) // as in secured
		_, err := w.Write(out)
		return err == nil && rc.Flush() == nil
	}
	if !send([]byte("retry: 3000\n\n")) {
		return
	}
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for quiet := 0; ; {
		raw, now, err := b.frame(gen)
		if err != nil {
			return
		}
		gen = now
		switch quiet++; {
		case raw != nil:
			quiet = 0
			if !send(raw) {
				return
			}
		case quiet%15 == 0:
			if !send([]byte(": still here\n\n")) {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

// address is what viewers are counted by: an IPv4 address, or a /64 of IPv6.
func address(r *http.Request) netip.Addr {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		if p, err := ip.Prefix(64); err == nil {
			return p.Addr()
		}
	}
	return ip
}

// streams is the number of viewers.
func (b *board) streams() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.viewers
}
