package billing

import (
	"testing"

	"neuron/engine/protocol"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/sessions"
)

// TestWhatAnEndPays: who failed decides whether a session pays, and rows are
// known only where all hops have counted alike.
func TestWhatAnEndPays(t *testing.T) {
	t.Parallel()
	count := func(c ...protocol.Counters) protocol.Telemetry {
		var out protocol.Telemetry
		for i, x := range c {
			out.Route = append(out.Route, protocol.HopTelemetry{Hop: i, Counters: x})
		}
		return out
	}
	lost := protocol.Errorf(protocol.CodeHopLost, "gone")
	silent := protocol.Errorf(protocol.CodeTimeout, "the gateway fell silent")
	silent.Detail = map[string]string{sessions.ByDriver: "1"}
	alike := count(protocol.Counters{PrefillRows: 60, DecodeRows: 12, DroppedRows: 2}, protocol.Counters{PrefillRows: 60, DecodeRows: 10})
	for name, c := range map[string]struct {
		end  sessions.End
		tel  protocol.Telemetry
		want ledger.End
	}{
		"done":                {sessions.End{Finish: protocol.FinishStop}, alike, ledger.End{Prefill: 60, Decode: 10}},
		"a hop is lost":       {sessions.End{Finish: protocol.FinishError, Error: lost}, alike, ledger.End{Failed: true, Prefill: 60, Decode: 10}},
		"the client left":     {sessions.End{Finish: protocol.FinishCancelled, Error: lost}, alike, ledger.End{Prefill: 60, Decode: 10}},
		"cancelled":           {sessions.End{Error: protocol.Errorf(protocol.CodeCancelled, "x")}, alike, ledger.End{Prefill: 60, Decode: 10}},
		"the gateway's fault": {sessions.End{Error: silent}, alike, ledger.End{Prefill: 60, Decode: 10}},
		"a hop is missing":    {sessions.End{}, count(protocol.Counters{PrefillRows: 60}), ledger.End{Prefill: -1, Decode: -1}},
		"hops do not agree":   {sessions.End{}, count(protocol.Counters{PrefillRows: 60}, protocol.Counters{PrefillRows: 59}), ledger.End{Prefill: -1, Decode: -1}},
	} {
		d := New(Options{})
		d.Ended(&sessions.Session{Lease: &protocol.Lease{Session: "s", Hops: make([]protocol.Hop, 2)}, Telemetry: c.tel, End: &c.end})
		c.want.Session = "s"
		if got := d.ends["s"]; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestPolicies(t *testing.T) {
	t.Parallel()
	for p, ok := range map[Policy]bool{Off: true, Optional: true, Required: true, "": false, "free": false} {
		if err := p.Check(); (err == nil) != ok {
			t.Errorf("%q: %v", p, err)
		}
	}
}
