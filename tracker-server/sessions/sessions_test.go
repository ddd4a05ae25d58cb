package sessions

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"neuron/engine/protocol"
)

var t0 = time.Unix(1_700_000_000, 0)

func at(s int) time.Time { return t0.Add(time.Duration(s) * time.Second) }

func sid(i int) protocol.SessionID {
	return protocol.SessionID(fmt.Sprintf("s-%026d", 0)[:27] + string(rune('a'+i)))
}

func lease(i int, driver protocol.NodeID) *protocol.Lease {
	return &protocol.Lease{
		Version: 1, Session: sid(i), Driver: driver, Layers: 4, Issued: t0, Expires: at(7200),
		Hops: []protocol.Hop{{Node: "a", Use: protocol.Range{First: 0, Last: 2}}, {Node: "b", Use: protocol.Range{First: 2, Last: 4}}},
	}
}

func table(n int, driver protocol.NodeID) *Table {
	t := New(DefaultConfig())
	for i := range n {
		t.Add(Session{Lease: lease(i, driver), Phase: protocol.PhaseRouting, Updated: t0})
	}
	return t
}

func tel(i int, seq uint64, p protocol.Phase) *protocol.Telemetry {
	return &protocol.Telemetry{Session: sid(i), Seq: seq, Phase: p}
}

func code(t *testing.T, err error, c protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: c}) {
		t.Errorf("got %v, want %s", err, c)
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	tb := table(1, "g")
	for _, s := range []struct {
		name                          string
		tel                           *protocol.Telemetry
		ignored, phase, opened, ended bool
	}{
		{name: "opening", tel: tel(0, 1, protocol.PhaseOpening), phase: true},
		{name: "repeated", tel: tel(0, 1, protocol.PhasePrefill), ignored: true},
		{name: "prefill", tel: tel(0, 2, protocol.PhasePrefill), phase: true, opened: true},
		{name: "prefill goes on", tel: tel(0, 3, protocol.PhasePrefill)},
		{name: "backwards", tel: tel(0, 4, protocol.PhaseOpening), ignored: true},
		{name: "decode", tel: tel(0, 9, protocol.PhaseDecode), phase: true},
		{name: "failed", tel: tel(0, 10, protocol.PhaseFailed), phase: true, ended: true},
		{name: "ended twice", tel: tel(0, 11, protocol.PhaseDone), ignored: true},
	} {
		c, err := tb.Update(at(1), "g", s.tel)
		if err != nil || c.Ignored != s.ignored || c.PhaseChanged != s.phase || c.Opened != s.opened || c.Ended != s.ended {
			t.Errorf("%s: %+v, %v", s.name, c, err)
		}
	}
	if s, ok := tb.Get(sid(0)); !ok || s.End == nil || s.End.Error == nil || s.End.Finish != protocol.FinishError {
		t.Errorf("a failure without a reason has none: %+v", s)
	}
	var over *EndedError
	if _, err := tb.Update(at(2), "g", tel(0, 12, protocol.PhaseDecode)); !errors.As(err, &over) {
		t.Errorf("got %v", err)
	}
	_, err := tb.Update(at(2), "g", tel(5, 1, protocol.PhaseDecode))
	code(t, err, protocol.CodeSessionUnknown)
	_, err = tb.Update(at(2), "other", tel(0, 99, protocol.PhaseDecode))
	code(t, err, protocol.CodeForbidden)
	code(t, tb.CheckNew(sid(0), "g"), protocol.CodeSessionExists)
}

func TestSweep(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		do   func(tb *Table)
		at   int
		want protocol.Code
	}{
		{name: "nothing", at: 60},
		{name: "never started", at: 61, want: protocol.CodeTimeout},
		{name: "running", do: func(tb *Table) { _, _ = tb.Update(at(50), "g", tel(0, 1, protocol.PhaseDecode)) }, at: 649},
		{name: "silent", do: func(tb *Table) { _, _ = tb.Update(at(50), "g", tel(0, 1, protocol.PhaseDecode)) }, at: 651, want: protocol.CodeTimeout},
		{name: "driver within grace", do: func(tb *Table) { tb.DriverLost(at(1), "g") }, at: 30},
		{name: "driver lost", do: func(tb *Table) { tb.DriverLost(at(1), "g") }, at: 31, want: protocol.CodeUnavailable},
		{name: "driver back", do: func(tb *Table) { tb.DriverLost(at(1), "g"); tb.DriverConnected("g") }, at: 50},
		{name: "another driver lost", do: func(tb *Table) { tb.DriverLost(at(1), "h") }, at: 50},
		{name: "lease over", do: func(tb *Table) { _, _ = tb.Update(at(7199), "g", tel(0, 1, protocol.PhaseDecode)) }, at: 7201, want: protocol.CodeLeaseExpired},
		{name: "restored, within grace", do: func(tb *Table) { tb.Restore(at(5), Session{Lease: lease(0, "g")}) }, at: 64},
		{name: "restored, driver never came", do: func(tb *Table) { tb.Restore(at(5), Session{Lease: lease(0, "g")}) }, at: 65, want: protocol.CodeUnavailable},
	} {
		tb := table(1, "g")
		if c.do != nil {
			c.do(tb)
		}
		got := tb.Sweep(at(c.at))
		if c.want == "" && len(got) == 0 {
			continue
		}
		if len(got) != 1 || got[0].End.Error == nil || got[0].End.Error.Code != c.want || got[0].Phase != protocol.PhaseFailed {
			t.Errorf("%s: %+v, want %q", c.name, got, c.want)
		}
		if len(tb.Sweep(at(c.at))) != 0 {
			t.Errorf("%s: ended twice", c.name)
		}
	}
}

func TestHopFailed(t *testing.T) {
	t.Parallel()
	tb := table(1, "g")
	_, err := tb.HopFailed(t0, "x", &protocol.HopFailed{Session: sid(0), Node: "b"})
	code(t, err, protocol.CodeForbidden)
	_, err = tb.HopFailed(t0, "a", &protocol.HopFailed{Session: sid(0), Node: "x"})
	code(t, err, protocol.CodeForbidden)
	_, err = tb.HopFailed(t0, "a", &protocol.HopFailed{Session: sid(3), Node: "b"})
	code(t, err, protocol.CodeSessionUnknown)
	c, err := tb.HopFailed(t0, "a", &protocol.HopFailed{Session: sid(0), Node: "b"})
	if err != nil || !c.Ended || c.Session.End.Error.Code != protocol.CodeHopLost || *c.Session.End.Error.Hop != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := tb.HopFailed(t0, "g", &protocol.HopFailed{Session: sid(0), Node: "a"}); err != nil || !c.Ignored {
		t.Errorf("second report: %+v, %v", c, err)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.MaxPerDriver, cfg.MaxLive = 2, 3
	tb := New(cfg)
	for i := range 2 {
		tb.Add(Session{Lease: lease(i, "g"), Updated: t0})
	}
	code(t, tb.CheckNew(sid(2), "g"), protocol.CodeRateLimited)
	if err := tb.CheckNew(sid(2), "h"); err != nil {
		t.Error(err)
	}
	tb.Add(Session{Lease: lease(2, "h"), Updated: t0})
	code(t, tb.CheckNew(sid(3), "i"), protocol.CodeRateLimited)
	tb.Forget(sid(2))
	if err := tb.CheckNew(sid(2), "i"); err != nil {
		t.Error(err)
	}
	for i := range 3 * keepEnded {
		l := lease(0, "z")
		l.Session = protocol.SessionID(fmt.Sprint(i))
		tb.Add(Session{Lease: l, Updated: t0})
		if _, err := tb.HopFailed(t0, "z", &protocol.HopFailed{Session: l.Session, Node: "a"}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(tb.List()); n != keepEnded+2 {
		t.Errorf("%d sessions are kept", n)
	}
}

func TestCheckTelemetry(t *testing.T) {
	t.Parallel()
	good := func() *protocol.Telemetry {
		x := tel(0, 1, protocol.PhaseDecode)
		x.Session = protocol.NewSessionID()
		x.Route = []protocol.HopTelemetry{{Health: "ok"}}
		return x
	}
	if err := CheckTelemetry(good()); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func(*protocol.Telemetry){
		"session": func(x *protocol.Telemetry) { x.Session = "s-1" },
		"phase":   func(x *protocol.Telemetry) { x.Phase = "flying" },
		"seq":     func(x *protocol.Telemetry) { x.Seq = 0 },
		"count":   func(x *protocol.Telemetry) { x.Tokens = -1 },
		"nan":     func(x *protocol.Telemetry) { x.TokensPerSecond = math.NaN() },
		"inf":     func(x *protocol.Telemetry) { x.ElapsedMillis = math.Inf(1) },
		"hops":    func(x *protocol.Telemetry) { x.Route = make([]protocol.HopTelemetry, 65) },
		"health":  func(x *protocol.Telemetry) { x.Route[0].Health = "great" },
		"counter": func(x *protocol.Telemetry) { x.Route[0].Counters.DecodeMicros = -1 },
		"text":    func(x *protocol.Telemetry) { x.Name = string(make([]byte, 300)) },
	} {
		x := good()
		f(x)
		if err := CheckTelemetry(x); err == nil {
			t.Errorf("%s: accepted", name)
		} else {
			code(t, err, protocol.CodeInvalidRequest)
		}
	}
}

func TestRevoke(t *testing.T) {
	t.Parallel()
	tb := table(2, "g")
	tb.Add(Session{Lease: lease(2, "b"), Phase: protocol.PhaseDecode, Updated: t0}) // the gateway of a hop's computer
	if out := tb.Revoke(at(1), "stranger", "x"); len(out) != 0 {
		t.Errorf("ended %d", len(out))
	}
	out := tb.Revoke(at(1), "b", "banned")
	if len(out) != 3 || tb.Live()[protocol.PhaseRouting] != 0 || len(tb.Revoke(at(1), "b", "banned")) != 0 {
		t.Fatalf("ended %d", len(out))
	}
	for i, s := range out {
		e := s.End.Error
		want, byDriver := protocol.CodeHopLost, ""
		if i == 2 {
			want, byDriver = protocol.CodeForbidden, "true"
		}
		if e.Code != want || e.Detail[ByDriver] != byDriver || (e.Hop != nil) != (i < 2) || s.Phase != protocol.PhaseFailed {
			t.Errorf("session %d: %v %v", i, e, e.Detail)
		}
	}
	tb = table(1, "g")
	if out := tb.Revoke(at(1), "g", "banned"); len(out) != 1 || out[0].End.Error.Code != protocol.CodeForbidden {
		t.Errorf("by its gateway: %+v", out)
	}
}
