package keys

import (
	"strconv"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// rates counts requests per key: a bucket that holds a minute's requests and
// fills evenly. Only keys that proved themselves get one.
type rates struct {
	now func() time.Time

	mu      sync.Mutex
	buckets map[string]bucket
}

// bucket stands for the requests that were counted: it is empty again at full.
type bucket struct{ full time.Time }

// maxBuckets is where full buckets are forgotten; they say nothing.
const maxBuckets = 10_000

// take counts one request. Error: rate_limited.
func (r *rates) take(id string, perMinute int64) error {
	if perMinute == 0 {
		return nil
	}
	now, each := r.now(), time.Minute/time.Duration(perMinute)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.buckets == nil {
		r.buckets = make(map[string]bucket)
	}
	full := r.buckets[id].full
	if full.Before(now) {
		full = now
	}
	full = full.Add(each)
	if over := full.Sub(now) - time.Minute; over > 0 {
		seconds := int64((over + time.Second - 1) / time.Second)
		return protocol.Errorf(protocol.CodeRateLimited, "the key allows %d requests in a minute", perMinute).
			With("retry_after", strconv.FormatInt(seconds, 10))
	}
	if len(r.buckets) >= maxBuckets {
		for k, b := range r.buckets {
			if b.full.Before(now) {
				delete(r.buckets, k)
			}
		}
	}
	r.buckets[id] = bucket{full}
	return nil
}
