//go:build unix

package seam_test

import (
	"syscall"
	"testing"
	"time"

	"neuron/engine/protocol"
)

// TestHopFreezes stops a hop's process: its sockets stay open and swallow
// bytes, and nothing but silence tells.
func TestHopFreezes(t *testing.T) {
	brokenHop(t, func(t *testing.T, n *network, r *route, dead int) {
		start := time.Now()
		if err := n.nodes[dead].proc.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		checkBroken(t, n, r, dead, protocol.CodeStageFrozen)
		// 5 s with the default of 3 s silence; here all is shorter.
		if d := time.Since(start); d > silence*5/3 {
			t.Errorf("noticed after %s", d)
		}
		if err := n.nodes[dead].proc.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		until(t, 5*time.Second, "the hop frees its KV when it wakes", func() bool {
			st, err := n.client.State(t.Context(), r.lease.Hops[dead], r.lease.Session)
			return err == nil && st.Phase == protocol.PhaseFailed
		})
	})
}
