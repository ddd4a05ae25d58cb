package gateway

import (
	"crypto/sha256"
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

// client is a key in use. Safe for concurrent use.
type client struct {
	key Key
	sum [sha256.Size]byte
	now func() time.Time

	mu      sync.Mutex
	running int       // guarded by mu
	saved   float64   // requests that may come at once; guarded by mu
	filled  time.Time // when saved was right; guarded by mu
}

func newClients(o *Options) []*client {
	keys := o.Keys
	if o.Key != "" {
		keys = append([]Key{{Name: "main", Secret: o.Key}}, keys...)
	}
	out := make([]*client, len(keys))
	for i, k := range keys {
		out[i] = &client{key: k, sum: sha256.Sum256([]byte(k.Secret)), now: o.Now, saved: float64(k.PerMinute), filled: o.Now()}
	}
	return out
}

// begin counts a request that starts; the caller calls end when it is over.
// What is left of the limits goes into h, under OpenAI's names.
func (c *client) begin(h http.Header) *protocol.Error {
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

func (c *client) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
}

// clientKey carries the request's *client in its context.
type clientKey struct{}
