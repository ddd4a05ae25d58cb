// Package admit decides which requests a gateway takes on: keys with limits of
// their own, and a queue for all.
//
// It knows no HTTP but header fields, and starts no goroutine. engine/gateway
// imports it, and engine/program for the file of keys.
package admit

import (
	"crypto/sha256"
	"crypto/subtle"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// Key is a key that clients may send, with its limits.
type Key struct {
	// Name is for logs; it tells nothing of the secret.
	Name   string
	Secret string
	// Concurrent requests for answers at a time, queued ones included, and
	// PerMinute such requests; 0 is no limit. Requests saved up count for one
	// minute at most.
	Concurrent, PerMinute int
}

// Client is a key in use. Safe for concurrent use.
type Client struct {
	key Key
	sum [sha256.Size]byte
	now func() time.Time

	mu      sync.Mutex
	running int       // guarded by mu
	saved   float64   // requests that may come at once; guarded by mu
	filled  time.Time // when saved was right; guarded by mu
}

// NewClients makes clients of keys.
func NewClients(keys []Key, now func() time.Time) []*Client {
	out := make([]*Client, len(keys))
	for i, k := range keys {
		out[i] = &Client{key: k, sum: sha256.Sum256([]byte(k.Secret)), now: now, saved: float64(k.PerMinute), filled: now()}
	}
	return out
}

// ID tells the client from others; it changes with the secret, and is not for
// anybody's eyes.
func (c *Client) ID() string { return string(c.sum[:]) }

// Find is the client whose secret is given, comparing all of them in constant
// time whatever their length; nil if there is none.
func Find(clients []*Client, secret string) (found *Client) {
	got := sha256.Sum256([]byte(secret))
	for _, c := range clients {
		if subtle.ConstantTimeCompare(got[:], c.sum[:]) == 1 {
			found = c
		}
	}
	return found
}

// Begin counts a request that starts; the caller calls End when it is over.
// What is left of the limits goes into h, under OpenAI's names.
func (c *Client) Begin(h http.Header) *protocol.Error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.key.Concurrent; n > 0 && c.running >= n {
		return protocol.Errorf(protocol.CodeRateLimited, "%d requests of this key run or wait already, and no more are allowed", c.running).
			With("retry_after", "1").With("limit", strconv.Itoa(n))
	}
	if n := float64(c.key.PerMinute); n > 0 {
		now := c.now()
		c.saved = min(n, c.saved+now.Sub(c.filled).Minutes()*n)
		c.filled = now
		wait := (1 - c.saved) / n * 60 // seconds until the next one
		h.Set("X-Ratelimit-Limit-Requests", strconv.Itoa(c.key.PerMinute))
		if c.saved < 1 {
			h.Set("X-Ratelimit-Remaining-Requests", "0")
			return protocol.Errorf(protocol.CodeRateLimited, "this key may send %d requests a minute", c.key.PerMinute).
				With("retry_after", strconv.Itoa(int(math.Ceil(wait)))).With("limit", strconv.Itoa(c.key.PerMinute))
		}
		c.saved--
		h.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(int(c.saved)))
		h.Set("X-Ratelimit-Reset-Requests", (time.Duration((n - c.saved) / n * float64(time.Minute)).Round(time.Millisecond)).String())
	}
	c.running++
	return nil
}

// End is for each request that Begin let pass. A nil Client has no limits.
func (c *Client) End() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
}
