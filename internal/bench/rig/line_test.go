package rig

import (
	"io"
	"net"
	"testing"
	"time"

	"neuron/internal/leaktest"
)

// A line delays what it carries and does not throttle it: many pieces sent
// at once arrive together, one delay later each way.
func TestLineDelays(t *testing.T) {
	leaktest.Check(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	echo := make(chan struct{})
	go func() {
		defer close(echo)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c) // until the other end closes
	}()
	const delay = 30 * time.Millisecond
	r, err := NewLine(l.Addr().String(), delay)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial("tcp", r.Addr())
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	const n = 50
	for range n {
		if _, err := c.Write(make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := io.ReadFull(c, make([]byte, 1000*n)); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took < 2*delay || took > n*delay {
		t.Errorf("took %s, want %s and not much more", took, 2*delay)
	}
	c.Close()
	<-echo
	l.Close()
	r.Close()
}
