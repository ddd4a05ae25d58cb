//go:build linux || darwin

package tlsio_test

import (
	"net"
	"os"
	"testing"
	"time"

	"neuron/engine/seam/tlsio"
	"neuron/internal/identity"
)

// What Room tells can be written though the other side reads nothing, and at some
// time it tells that there is no more.
func TestRoomIsThere(t *testing.T) {
	t.Parallel()
	for _, side := range []string{"client", "server"} {
		t.Run(side, func(t *testing.T) {
			t.Parallel()
			client, server := pair(t)
			c := client
			if side == "server" {
				c = server
			}
			room := tlsio.Room(c)
			if room == nil {
				t.Fatal("no room")
			}
			const piece = 8 << 10
			p := make([]byte, piece)
			written := 0
			for room() >= piece+piece/64+256 {
				c.SetWriteDeadline(time.Now().Add(10 * time.Second))
				if _, err := c.Write(p); err != nil {
					t.Fatalf("after %d bytes: %v", written, err)
				}
				if written += piece; written > 256<<20 {
					t.Fatal("room without end")
				}
			}
			if written == 0 {
				t.Fatal("no room from the start")
			}
			// There is an end to it: without asking, a write waits.
			c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
			var err error
			for err == nil {
				_, err = c.Write(p)
			}
			if !os.IsTimeout(err) {
				t.Error(err)
			}
		})
	}
}

func TestRoomOfOthers(t *testing.T) {
	t.Parallel()
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	if tlsio.Room(a) != nil || tlsio.Room(nil) != nil {
		t.Error("room of a connection that is none of ours")
	}
}

// pair is a connection of Dial and its other end of Listen.
func pair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	id, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := tlsio.Listen(raw, id.ServerTLS())
	defer l.Close()
	accepted := make(chan net.Conn, 1)
	go func() {
		defer close(accepted)
		c, err := l.Accept()
		if err != nil {
			return // the test misses it
		}
		if _, err := c.Read(make([]byte, 1)); err == nil { // shakes hands
			accepted <- c
		}
	}()
	client, err = tlsio.Dial(t.Context(), "tcp", raw.Addr().String(), id.ClientTLS(id.ID()), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cut(client) })
	if _, err := client.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	server, ok := <-accepted
	if !ok {
		t.Fatal("no connection")
	}
	t.Cleanup(func() { cut(server) })
	return client, server
}

// cut closes a connection without a last word, which would wait for the other side.
func cut(c net.Conn) { c.(interface{ NetConn() net.Conn }).NetConn().Close() }
