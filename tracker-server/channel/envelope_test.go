package channel

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"neuron/engine/protocol"
)

// messages are read by quick, or by nobody but the JSON decoder.
var messages = []struct {
	raw   string
	quick bool
}{
	{`{"kind":"receipts","id":7,"body":{"receipts":["AAAA","BBBB"]}}`, true},
	{`{"kind":"session","body":{"telemetry":{"name":"a \"b\" \\","route":[{},{"x":[1,2]}]}}}`, true},
	{`{"kind":"report","body":{}}`, true},
	{`{"kind":"route","id":18446744073709551615,"body":{"model":"}{][\\\\\""}}`, true},
	{`{"kind":"route","id":18446744073709551616,"body":{}}`, false},
	{`{"kind":"route","id":0,"body":{}}`, false},
	{`{"kind":"route","id":07,"body":{}}`, false},
	{`{"kind":"route","id":-7,"body":{}}`, false},
	{`{"kind":"route","id":7.5,"body":{}}`, false},
	{`{"kind":"route","body":{},"id":7}`, false},
	{`{"kind":"route","body":{},"body":{"model":"m"}}`, false},
	{`{"kind":"route","body":{},"kind":"report"}`, false},
	{`{"kind":"route","id":7,"body":{}} `, false},
	{`{"kind":"route","id":7,"body":{}}}`, false},
	{`{"kind":"route","id":7,"body":{}`, false},
	{`{"kind":"route","id":7,"body":{"a":"}`, false},
	{`{"kind":"route","id":7,"body":{"a":"\"}`, false},
	{`{"kind":"route","id":7,"body":null}`, false},
	{`{"kind":"route","id":7,"body":[]}`, false},
	{`{"kind":"route","id":7}`, false},
	{`{"kind":"route","id":`, false},
	{`{"kind":"models","id":7,"body":{}}`, false},
	{`{"kind":"rou\u0074e","id":7,"body":{}}`, false},
	{` {"kind":"route","id":7,"body":{}}`, false},
	{`{"id":7,"kind":"route","body":{}}`, false},
	{`{"KIND":"route"}`, false},
	{`{"kind":"bye"}`, false},
	{``, false},
}

// TestQuickReadsTheSame: what is read without the JSON decoder is what it reads.
func TestQuickReadsTheSame(t *testing.T) {
	t.Parallel()
	for _, m := range messages {
		if e := quick([]byte(m.raw)); (e != nil) != m.quick {
			t.Errorf("%s: quick is %t, want %t", m.raw, e != nil, m.quick)
		}
		sameEnvelope(t, []byte(m.raw))
	}
	long := `{"kind":"receipts","body":{"a":"` + strings.Repeat("x", protocol.MaxMessage) + `"}}`
	if _, err := parse([]byte(long)); protocol.AsError(err).Code != protocol.CodeRequestTooLarge {
		t.Errorf("a long message: %v", err)
	}
}

// sameEnvelope compares parse with the JSON decoder, for what is JSON.
func sameEnvelope(t *testing.T, raw []byte) {
	t.Helper()
	got, gotErr := parse(bytes.Clone(raw))
	want, err := protocol.ParseEnvelope(raw)
	if gotErr != nil || err != nil {
		// The body is left to who unpacks it.
		if gotErr != nil || json.Valid(got.Body) {
			if (gotErr == nil) != (err == nil) {
				t.Errorf("%q: %v, the JSON decoder says %v", raw, gotErr, err)
			}
		}
		return
	}
	if got.Kind != want.Kind || got.ID != want.ID || !bytes.Equal(got.Body, want.Body) {
		t.Errorf("%q: %q %d %q, the JSON decoder has %q %d %q", raw, got.Kind, got.ID, got.Body, want.Kind, want.ID, want.Body)
	}
}

func FuzzEnvelope(f *testing.F) {
	for _, m := range messages {
		f.Add([]byte(m.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		sameEnvelope(t, raw)
		body := append([]byte(`{"kind":"session","id":3,"body":`), raw...)
		sameEnvelope(t, append(body, '}'))
	})
}

// TestEncodeIsJSON: what is put together by hand is what the JSON encoder makes.
func TestEncodeIsJSON(t *testing.T) {
	t.Parallel()
	for _, id := range []uint64{0, 1, 1<<64 - 1} {
		for _, body := range []any{nil, struct{}{}, map[string]string{"a": "<&>\u2028\"\\"}, []int{1}} {
			e := &protocol.Envelope{Kind: "a<\"b", ID: id}
			if body != nil {
				var err error
				if e, err = protocol.Pack(protocol.MsgLease, id, body); err != nil {
					t.Fatal(err)
				}
			}
			want, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := encode(e); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %v, want %s", got, err, want)
			}
		}
	}
}
