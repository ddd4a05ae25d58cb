package swarmtest

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"testing"
	"time"
)

// Wire is a BitTorrent peer of our own: the handshake of BEP 3 and raw
// messages.
type Wire struct {
	net.Conn
	r *bufio.Reader
}

// DialWire connects to a node from an address of the loopback network, so that
// a ban hits nobody else.
func DialWire(t testing.TB, from string, to netip.AddrPort, infoHash string, reserved [8]byte) (*Wire, error) {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}
	c, err := d.DialContext(t.Context(), "tcp", to.String())
	if err != nil {
		return nil, err
	}
	if err := c.SetDeadline(time.Now().Add(Patience)); err != nil {
		t.Fatal(err)
	}
	hash, err := hex.DecodeString(infoHash)
	if err != nil {
		t.Fatal(err)
	}
	hello := append([]byte("\x13BitTorrent protocol"), reserved[:]...)
	hello = append(append(hello, hash...), fmt.Sprintf("-XX0000-%012d", rand.IntN(1e9))...)
	w := &Wire{c, bufio.NewReader(c)}
	if _, err := c.Write(hello); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	back := make([]byte, 68)
	if _, err := io.ReadFull(w.r, back); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return w, nil
}

// Send sends one message.
func (w *Wire) Send(id byte, payload ...byte) error {
	b := binary.BigEndian.AppendUint32(nil, uint32(1+len(payload)))
	_, err := w.Write(append(append(b, id), payload...))
	return err
}

// Next is the next message but keep-alives.
func (w *Wire) Next() (id byte, payload []byte, err error) {
	for {
		var n [4]byte
		if _, err := io.ReadFull(w.r, n[:]); err != nil {
			return 0, nil, err
		}
		size := binary.BigEndian.Uint32(n[:])
		if size == 0 {
			continue
		}
		if size > 1<<20 {
			return 0, nil, fmt.Errorf("a message of %d bytes", size)
		}
		b := make([]byte, size)
		if _, err := io.ReadFull(w.r, b); err != nil {
			return 0, nil, err
		}
		return b[0], b[1:], nil
	}
}

// ServeWrong claims to have all pieces and answers requests; content gives the
// bytes. It returns when the node ends the connection.
func (w *Wire) ServeWrong(pieces int, content func(piece, begin, n int) []byte) error {
	all := make([]byte, (pieces+7)/8)
	for p := range pieces {
		all[p/8] |= 0x80 >> (p % 8)
	}
	if err := w.Send(5, all...); err != nil {
		return err
	}
	if err := w.Send(1); err != nil { // unchoke
		return err
	}
	for {
		id, b, err := w.Next()
		if err != nil {
			return err
		}
		if id != 6 || len(b) != 12 { // request
			continue
		}
		piece, begin, n := binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
		if err := w.Send(7, append(b[:8:8], content(int(piece), int(begin), int(n))...)...); err != nil {
			return err
		}
	}
}
