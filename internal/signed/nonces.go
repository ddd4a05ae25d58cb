package signed

import (
	"crypto/ed25519"
	"slices"
	"strconv"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// Bounds of the memory for replays. Keys cost nothing to make, so strangers may
// fill only half of it; the rest is for keys that belong to somebody.
const (
	perKey       = 64 // requests of one key that are remembered
	maxKeys      = 32 << 10
	maxStrangers = maxKeys / 2
	sweepEvery   = time.Second
)

// nonces remembers the requests of the window. It fails closed: where it
// forgets something, it also refuses everything that could be it.
//
// A key that sends more than perKey requests within the window loses its own
// oldest ones, with a floor: what was signed at or before the newest forgotten
// one is refused from then on. No key costs another one anything.
type nonces struct {
	mu   sync.Mutex
	keys map[[ed25519.PublicKeySize]byte]*seen
	// floor is a time below which nothing is taken: the start, and what sweeps
	// have forgotten, which counts when the clock is set back.
	floor int64
	swept int64
}

// seen is what is known of one key.
type seen struct {
	floor    int64   // at or below it nothing is taken
	requests []entry // sorted by at
}

type entry struct {
	at    int64
	nonce [nonceSize]byte
}

// take remembers a request that is otherwise good. known is asked, without the
// lock, when a new key would take room that is not for strangers. Errors:
// unauthorized for a replay or what may be one, rate_limited.
func (n *nonces) take(now int64, a *auth, known func() bool) error {
	if n.crowded(now, a) && !known() {
		return errCrowded
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if a.at < n.floor {
		return timeError(now, "the request was signed before this tracker can remember; sign it again")
	}
	s := n.keys[a.key]
	if s == nil {
		if len(n.keys) >= maxKeys {
			return errCrowded
		}
		s = new(seen)
		n.keys[a.key] = s
	}
	return s.take(now, a)
}

var errCrowded = protocol.Errorf(protocol.CodeRateLimited, "too many new keys sign requests at this time; try again in %d minutes", int(Window/time.Minute)).
	With("retry_after", strconv.Itoa(int(Window.Seconds())))

// crowded reports whether strangers have no room for the key of a.
func (n *nonces) crowded(now int64, a *auth) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keys[a.key] != nil {
		return false
	}
	if len(n.keys) >= maxStrangers && (now-n.swept >= sweepEvery.Milliseconds() || now < n.swept) {
		n.sweepLocked(now)
	}
	return len(n.keys) >= maxStrangers
}

// sweepLocked forgets the keys whose requests are all out of the window.
func (n *nonces) sweepLocked(now int64) {
	n.swept = now
	old := now - Window.Milliseconds()
	n.floor = max(n.floor, old)
	for k, s := range n.keys {
		if len(s.requests) == 0 || s.requests[len(s.requests)-1].at < old {
			delete(n.keys, k)
		}
	}
}

var errReplay = protocol.Errorf(protocol.CodeUnauthorized, "this request came before; sign it again")

func (s *seen) take(now int64, a *auth) error {
	i, _ := slices.BinarySearchFunc(s.requests, a.at, func(e entry, at int64) int {
		switch {
		case e.at < at:
			return -1
		case e.at > at:
			return 1
		}
		return 0
	})
	for j := i; j < len(s.requests) && s.requests[j].at == a.at; j++ {
		if s.requests[j].nonce == a.nonce {
			return errReplay
		}
	}
	if a.at <= s.floor {
		return timeError(now, "the key has signed %d later requests; sign this one again", perKey)
	}
	if len(s.requests) == perKey {
		if i == 0 { // it is itself the oldest, and forgotten at once
			s.floor = a.at
			return nil
		}
		s.floor = s.requests[0].at
		s.requests = slices.Delete(s.requests, 0, 1)
		i--
	}
	s.requests = slices.Insert(s.requests, i, entry{a.at, a.nonce})
	return nil
}
