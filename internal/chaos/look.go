package chaos

import (
	"context"
	"fmt"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// Poll is how often a condition is looked at.
const Poll = 10 * time.Millisecond

// Look is a moment of a node, as its local API tells it.
type Look struct {
	Status   *localapi.Status
	Sessions []protocol.SessionState
}

// Idle reports whether the node holds no session and no KV memory.
func (l Look) Idle() bool {
	if len(l.Sessions) > 0 || l.Status.Memory.KVInUse != 0 {
		return false
	}
	for _, s := range l.Status.Shards {
		if s.Sessions != 0 {
			return false
		}
	}
	return true
}

// Ready reports whether the node's shard serves.
func (l Look) Ready() bool {
	return len(l.Status.Shards) == 1 && l.Status.Shards[0].State == protocol.ShardReady && len(l.Status.StagePIDs) == 1
}

// lookTimeout bounds one look: a frozen engine does not answer.
const lookTimeout = 2 * time.Second

// At looks at the node with the data folder.
func At(ctx context.Context, data string) (Look, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	c, err := localapi.Dial(data)
	if err != nil {
		return Look{}, err
	}
	defer c.Close()
	var l Look
	if l.Status, err = c.Status(ctx); err == nil {
		l.Sessions, err = c.Sessions(ctx)
	}
	return l, err
}

// Until looks at the node until ok holds and returns how long that took since
// from. An error of the look itself counts as not yet.
func Until(ctx context.Context, data string, from time.Time, within time.Duration, what string, ok func(Look) bool) (time.Duration, error) {
	for {
		l, err := At(ctx, data)
		if err == nil && ok(l) {
			return time.Since(from), nil
		}
		if time.Since(from) > within || ctx.Err() != nil {
			if err != nil {
				return 0, fmt.Errorf("%s: not within %s: %w", what, within, err)
			}
			s := l.Status.Shards[0]
			return 0, fmt.Errorf("%s: not within %s: state %s, %d sessions, %d in the stage, %d bytes of KV in use",
				what, within, s.State, len(l.Sessions), s.Sessions, l.Status.Memory.KVInUse)
		}
		time.Sleep(Poll)
	}
}
