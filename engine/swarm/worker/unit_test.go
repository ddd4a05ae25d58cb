package worker

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

func TestMeter(t *testing.T) {
	var m meter
	at := time.Unix(100, 0)
	if m.rate() != 0 {
		t.Error("a rate of nothing")
	}
	total := int64(0)
	for range 20 {
		m.note(at, total)
		at = at.Add(time.Second)
		total += 1000
	}
	if m.rate() != 1000 || len(m.samples) > 7 {
		t.Errorf("rate %d of %d samples", m.rate(), len(m.samples))
	}
	for range 6 {
		m.note(at, total)
		at = at.Add(time.Second)
	}
	if m.rate() != 0 {
		t.Errorf("rate %d when nothing moves", m.rate())
	}
	m.note(at, 5) // counted anew
	if m.rate() != 0 {
		t.Errorf("rate %d of a new count", m.rate())
	}
}

func TestGateKnowsBothFormsOfAnAddress(t *testing.T) {
	g := &gate{}
	if g.banned(netip.MustParseAddr("127.0.0.9")) {
		t.Error("banned before there is a list")
	}
	g.setList(func() []string { return []string{"127.0.0.9", "::ffff:127.0.0.8", "::7"} })
	for addr, want := range map[string]bool{
		"127.0.0.9:1": false, "127.0.0.8:1": false, "[::ffff:127.0.0.9]:1": false, "[::7]:1": false,
		"127.0.0.7:1": true, "[::8]:1": true, "[fe80::1%lo]:1": false,
	} {
		a, err := net.ResolveTCPAddr("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		if g.admits(a) != want {
			t.Errorf("%s: admitted %t", addr, !want)
		}
	}
}
