package swarm_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest"
)

// A peer whose bytes are wrong is banned by its address, on incoming
// connections too, and nothing that it sent is kept.
func TestPeerWithWrongBytesIsBanned(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 3)
	file, err := os.ReadFile(n.Path)
	if err != nil {
		t.Fatal(err)
	}
	ranges := []protocol.Range{{First: 1, Last: 2}}
	need := n.need(t, ranges...)
	boundary := map[int]bool{}
	for _, r := range need.Pieces {
		boundary[r.First], boundary[r.Last-1] = true, true
	}
	node := swarmtest.Start(t)
	m := n.Wanted(n.Folder(t))
	m.Ranges = ranges
	node.Only(m)
	addr := node.Addr()

	w, err := swarmtest.DialWire(t, "127.0.0.9", addr, n.InfoHash, [8]byte{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	err = w.ServeWrong(n.Manifest.Torrent.Pieces, func(piece, begin, size int) []byte {
		b := append([]byte(nil), file[piece*pieceLength+begin:][:size]...)
		if boundary[piece] {
			b[size/2] ^= 1
		}
		return b
	})
	if err == nil {
		t.Fatal("the connection was not ended")
	}
	s := node.Until("the ban", func(s swarm.Status) bool { return s.Models[0].Dropped == 1 }).Models[0]
	if s.Wasted == 0 || s.Done > need.WireBytes-pieceLength {
		t.Errorf("after the ban: %+v", s)
	}
	if w, err := swarmtest.DialWire(t, "127.0.0.9", addr, n.InfoHash, [8]byte{}); err == nil {
		w.Close()
		t.Error("a banned peer may connect again")
	}
	pid := node.Host.Pid()
	m.Peers = []string{n.seeder.Addr().String()}
	node.Only(m)
	node.UntilState(swarm.StateComplete)
	if node.Host.Pid() != pid {
		t.Error("the child did not survive")
	}
	node.Stop()
	n.holds(t, m.Dir, need)
}

// Messages that no peer should send end the connection at most.
func TestGarbageOnTheWire(t *testing.T) {
	t.Parallel()
	n := newNetwork(t, 2)
	node := swarmtest.Start(t)
	m := n.wanted(t, protocol.Range{First: 0, Last: 1})
	node.Only(m)
	node.UntilState(swarm.StateComplete)
	pid := node.Host.Pid()
	addr := node.Addr()
	be := func(ns ...uint32) (b []byte) {
		for _, v := range ns {
			b = binary.BigEndian.AppendUint32(b, v)
		}
		return b
	}
	msg := func(id byte, payload ...byte) []byte {
		return append(append(be(uint32(1+len(payload))), id), payload...)
	}
	extended := [8]byte{5: 0x10, 7: 0x05} // BEP 10, BEP 6, DHT
	cases := [][]byte{
		be(0xffffffff), be(0x7fffffff, 0x14000000), be(1 << 20),
		msg(4, be(0xffffffff)...), msg(4, 1), msg(5), msg(5, make([]byte, 1<<16)...), msg(5, 0xff), msg(5, make([]byte, 9)...),
		msg(6, be(0, 0, 0xffffffff)...), msg(6, be(0, 0xfffffff0, 0x20)...), msg(6, be(0xffffffff, 0, 16384)...), msg(6, 1, 2),
		msg(6, be(0, 0, 0)...), msg(7, be(0, 0)...), msg(7, append(be(0, 0), make([]byte, 16384)...)...), msg(7, be(0xffffffff, 0xffffffff)...),
		msg(8, be(0, 0, 0xffffffff)...), msg(9, 0, 0), msg(13, be(0xffffffff)...), msg(14), msg(14, 1), msg(15), msg(16, be(9, 9, 9)...),
		msg(17, be(0xffffffff)...), msg(21, make([]byte, 48)...), msg(22, make([]byte, 100)...), msg(23, be(0xffffffff)...), msg(99, 1, 2, 3),
		msg(20), msg(20, 0), msg(20, append([]byte{0}, strings.Repeat("l", 60000)...)...), msg(20, append([]byte{0}, strings.Repeat("d1:a", 9000)...)...),
		msg(20, append([]byte{0}, "d1:md11:ut_metadatai-1eee"...)...), msg(20, append([]byte{0}, "d13:metadata_sizei-5e1:pi99999e4:reqqi-1ee"...)...),
		msg(20, append([]byte{1}, "d8:msg_typei0e5:piecei-1ee"...)...), msg(20, append([]byte{1}, "d8:msg_typei0e5:piecei99999999ee"...)...),
		msg(20, append([]byte{1}, "d8:msg_typei1e5:piecei0e10:total_sizei-1ee"...)...), msg(20, 2, 0, 0), msg(20, 200, 1), msg(20, append([]byte{0}, "9999999999:"...)...),
	}
	r := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		b := cases[r.IntN(len(cases))]
		c := append([]byte(nil), b...)
		for range 1 + r.IntN(4) {
			c[r.IntN(len(c))] = byte(r.UintN(256))
		}
		cases = append(cases, c)
	}
	for i, c := range cases {
		w, err := swarmtest.DialWire(t, fmt.Sprintf("127.0.1.%d", 1+i%250), addr, n.InfoHash, extended)
		if err != nil {
			t.Fatalf("case %d: %v", i, err)
		}
		_, err = w.Write(append(append([]byte(nil), c...), msg(2)...)) // and "interested"
		if tc, ok := w.Conn.(*net.TCPConn); err == nil && ok {
			err = tc.CloseWrite()
		}
		if err == nil { // wait until it has been read
			_, _ = io.Copy(io.Discard, w)
		}
		w.Close()
	}
	// Bytes that are not even a handshake.
	for i := range 20 {
		var d net.Dialer
		c, err := d.DialContext(t.Context(), "tcp", addr.String())
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, 10+r.IntN(2000))
		for k := range b {
			b[k] = byte(r.UintN(256))
		}
		if i%2 == 0 {
			copy(b, "\x13BitTorrent protocol")
		}
		_, _ = c.Write(b)
		c.Close()
	}
	m.Ranges = []protocol.Range{{First: 0, Last: 2}}
	node.Only(m)
	s := node.UntilState(swarm.StateComplete)
	if node.Host.Pid() != pid {
		t.Error("the child did not survive")
	}
	if s.Error != nil {
		t.Errorf("status %+v", s)
	}
	node.Stop()
	n.holds(t, m.Dir, n.need(t, m.Ranges...))
}
