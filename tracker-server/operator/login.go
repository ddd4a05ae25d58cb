package operator

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"neuron/engine/protocol"
)

const (
	cookieName  = "neuron_operator"
	preCookie   = "neuron_operator_login" // carries the login form's token
	sessionFor  = 12 * time.Hour
	maxSessions = 100
	maxName     = 60
)

// session is a browser that has shown the key.
type session struct {
	csrf    string
	by      string // who, for the log
	key     [sha256.Size]byte
	expires time.Time
	said    []said // shown once, with the next page
}

// said is a sentence about what was done.
type said struct {
	Text   string
	Secret string // a new API key, or ""
}

// logins holds the sessions of browsers. The cookie's token is random and only
// its hash is kept.
type logins struct {
	now func() time.Time

	mu   sync.Mutex
	open map[[sha256.Size]byte]*session
}

func random() string {
	var b [32]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return base64.RawURLEncoding.EncodeToString(b[:])
}

// start makes a session and returns its token. The oldest one makes room.
func (l *logins) start(key [sha256.Size]byte, by string) string {
	token, now := random(), l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest [sha256.Size]byte
	var at time.Time
	for id, s := range l.open {
		if !now.Before(s.expires) {
			delete(l.open, id)
		} else if at.IsZero() || s.expires.Before(at) {
			oldest, at = id, s.expires
		}
	}
	if len(l.open) >= maxSessions {
		delete(l.open, oldest)
	}
	l.open[sum(token)] = &session{csrf: random(), by: by, key: key, expires: now.Add(sessionFor)}
	return token
}

// find is the session of a request; nil without one, and after the key was
// rotated.
func (l *logins) find(r *http.Request, key [sha256.Size]byte) *session {
	c, err := r.Cookie(cookieName)
	if err != nil {
		return nil
	}
	id := sum(c.Value)
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.open[id]
	if s == nil || !l.now().Before(s.expires) || s.key != key {
		delete(l.open, id)
		return nil
	}
	return s
}

func (l *logins) end(r *http.Request) {
	if c, err := r.Cookie(cookieName); err == nil {
		l.mu.Lock()
		delete(l.open, sum(c.Value))
		l.mu.Unlock()
	}
}

// say keeps a sentence for the session's next page, take hands them out.
func (l *logins) say(s *session, what said) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.said = append(s.said, what)
}

func (l *logins) take(s *session) []said {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := s.said
	s.said = nil
	return out
}

// same compares tokens in constant time; an empty one is nobody's.
func same(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

func (a *Area) setCookie(w http.ResponseWriter, r *http.Request, name, value string, maxAge int) {
	http.SetCookie(w, &http.Cookie{
		Name: name, Value: value, Path: "/operator/", MaxAge: maxAge, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || a.cfg.SecureHost != "" && r.Host == a.cfg.SecureHost,
	})
}

// Attempts with a wrong key that are allowed in triesFor, by one address (a /64
// for IPv6) and by all together. The key cannot be guessed; the limits keep the
// log readable and the processor free. This computer is not counted with all:
// whoever floods the tracker does not lock out its command line.
const (
	triesFor  = 10 * time.Minute
	perSource = 10
	perAll    = 300
)

type tries struct {
	now func() time.Time

	mu    sync.Mutex
	since time.Time
	all   int
	seen  map[string]int
}

func (t *tries) turnLocked() {
	if now := t.now(); t.since.IsZero() || now.Sub(t.since) >= triesFor || now.Before(t.since) {
		t.since, t.all, t.seen = now, 0, make(map[string]int)
	}
}

// check refuses a source that has tried too often. Error: rate_limited.
func (t *tries) check(from string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnLocked()
	if t.seen[from] < perSource && (t.all < perAll || local(from)) {
		return nil
	}
	wait := int(triesFor.Seconds()-t.now().Sub(t.since).Seconds()) + 1
	return protocol.Errorf(protocol.CodeRateLimited, "too many wrong keys; wait %d minute(s)", (wait+59)/60).With("retry_after", strconv.Itoa(wait))
}

func (t *tries) failed(from string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turnLocked()
	t.all++
	if t.all <= 2*perAll { // sources beyond that are refused anyway
		t.seen[from]++
	}
}

func local(from string) bool {
	ip, err := netip.ParseAddr(from)
	return err == nil && ip.IsLoopback()
}

// source is where a request comes from, as attempts are counted.
func source(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is6() && !ip.IsLoopback() {
		p, _ := ip.Prefix(64) // 64 is valid for every IPv6 address
		return p.Addr().String()
	}
	return ip.String()
}

// who writes who did something: the name that the operator gave, as far as it
// can be shown, and the way. The key is one for all; the name is a courtesy.
func who(name, way string, r *http.Request) string {
	name = strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, strings.TrimSpace(strings.ToValidUTF8(name, "")))
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName], "")
	}
	if name != "" {
		name += ", "
	}
	return name + way + " at " + source(r)
}
