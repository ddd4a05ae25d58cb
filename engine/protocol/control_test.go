package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"neuron/engine/protocol"

	"github.com/google/go-cmp/cmp"
)

func TestEnvelopeRoundTrip(t *testing.T) {
	t.Parallel()
	want := protocol.RouteRequest{Session: "s-x", Model: "guide", Context: 100, Prompt: 40, Policy: "public", RTTMicros: map[protocol.NodeID]int64{"n": 5}}
	e, err := protocol.Pack(protocol.MsgRoute, 7, want)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	back, err := protocol.ParseEnvelope(b)
	if err != nil || back.Kind != protocol.MsgRoute || back.ID != 7 {
		t.Fatalf("%+v, %v", back, err)
	}
	got, err := protocol.Unpack[protocol.RouteRequest](back)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&want, got); d != "" {
		t.Error(d)
	}
	if _, err := protocol.Pack(protocol.MsgRoute, 7, make(chan int)); code(err) != protocol.CodeInternal {
		t.Errorf("unencodable body: %v", err)
	}
}

func TestParseEnvelopeRefuses(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in   string
		want protocol.Code
	}{
		"empty":       {"", protocol.CodeInvalidRequest},
		"null":        {"null", protocol.CodeInvalidRequest},
		"no object":   {`"hello"`, protocol.CodeInvalidRequest},
		"no kind":     {`{"id":1}`, protocol.CodeInvalidRequest},
		"kind number": {`{"kind":1}`, protocol.CodeInvalidRequest},
		"long kind":   {`{"kind":"` + strings.Repeat("k", 65) + `"}`, protocol.CodeInvalidRequest},
		"negative id": {`{"kind":"hello","id":-1}`, protocol.CodeInvalidRequest},
		"cut off":     {`{"kind":"hello","body":{`, protocol.CodeInvalidRequest},
		"two values":  {`{"kind":"hello"}{"kind":"hello"}`, protocol.CodeInvalidRequest},
		"very deep":   {`{"kind":"hello","body":` + strings.Repeat("[", 20000) + strings.Repeat("]", 20000) + `}`, protocol.CodeInvalidRequest},
		"too long":    {`{"kind":"hello","body":"` + strings.Repeat("x", protocol.MaxMessage) + `"}`, protocol.CodeRequestTooLarge},
	} {
		if e, err := protocol.ParseEnvelope([]byte(tc.in)); code(err) != tc.want {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	// An unknown kind is for the receiver to answer, not for the parser.
	if e, err := protocol.ParseEnvelope([]byte(`{"kind":"later"}`)); err != nil || e.Kind != "later" {
		t.Errorf("unknown kind: %+v, %v", e, err)
	}
}

func TestUnpackRefuses(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"", "[]", `"x"`, `{"protocol":"one"}`, `{"nonce":"***"}`} {
		if v, err := protocol.Unpack[protocol.Challenge](&protocol.Envelope{Kind: protocol.MsgChallenge, Body: json.RawMessage(body)}); code(err) != protocol.CodeInvalidRequest {
			t.Errorf("%q: %+v, %v", body, v, err)
		}
	}
}

func TestNeedsPrompt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		s    protocol.Sampler
		want bool
	}{
		"greedy":                  {protocol.Sampler{}, false},
		"top p":                   {protocol.Sampler{Temperature: 1, TopP: 0.9, TopK: 40}, false},
		"penalty without window":  {protocol.Sampler{RepeatPenalty: 1.1}, false},
		"window without penalty":  {protocol.Sampler{RepeatLastN: 64, RepeatPenalty: 1}, false},
		"repeat penalty":          {protocol.Sampler{RepeatLastN: 64, RepeatPenalty: 1.1}, true},
		"whole context":           {protocol.Sampler{RepeatLastN: -1, PresencePenalty: 0.1}, true},
		"frequency penalty":       {protocol.Sampler{RepeatLastN: 64, FrequencyPenalty: -0.1}, true},
		"dry":                     {protocol.Sampler{DRYMultiplier: 0.8}, true},
		"penalty that is 0 (off)": {protocol.Sampler{RepeatLastN: 64, RepeatPenalty: 0}, false},
	} {
		if got := tc.s.NeedsPrompt(); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestPhases(t *testing.T) {
	t.Parallel()
	for p, ended := range map[protocol.Phase]bool{
		protocol.PhaseQueued: false, protocol.PhaseRouting: false, protocol.PhaseOpening: false, protocol.PhasePrefill: false,
		protocol.PhaseDecode: false, protocol.PhaseDone: true, protocol.PhaseFailed: true, "": false, "later": false,
	} {
		if p.Ended() != ended {
			t.Errorf("%q ended: %t", p, p.Ended())
		}
	}
}
