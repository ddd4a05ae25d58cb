package protocol_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/rowbytes"
)

// fuzzLimits are small, so that a hostile length cannot make the fuzzer slow.
var fuzzLimits = protocol.Limits{MaxRows: 64, MaxWidth: 256, MaxPayload: 1 << 16, MaxControl: 1 << 12, MaxPos: protocol.MaxContext}

// FuzzFrame: whatever is read writes back to the same bytes, and every accessor
// is safe on it.
func FuzzFrame(f *testing.F) {
	for _, fr := range []*protocol.Frame{
		decodeFrame(),
		protocol.IDFrame(protocol.KindPrefill, 64, []int32{1, 2, 3}),
		protocol.ControlFrame(protocol.KindTruncate, 1, 2, 3),
		protocol.ErrorFrame(1, 2, protocol.Errorf(protocol.CodeKVBudget, "full")),
		protocol.AckFrame(protocol.Header{Pos: 5}, protocol.Ack{Rows: 1}),
		rowbytes.Frame(protocol.Header{Kind: protocol.KindPrefill, Pos: 3}, 2, rowbytes.Parts{
			IDs: []int32{4, 5}, Hidden: make([]byte, 16), DType: protocol.DTypeF16, Width: 4, TopK: []int32{3, 0, -1, 1, 2, 4},
		}),
	} {
		b, err := protocol.AppendFrame(nil, fr, fuzzLimits)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(append(b, b...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := protocol.NewFrameReader(bytes.NewReader(data), fuzzLimits)
		var wire []byte
		for {
			fr, err := r.Read()
			if err != nil {
				var e *protocol.Error
				if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &e) {
					t.Fatalf("error without a code: %v", err)
				}
				break
			}
			fr.IDs()
			fr.Hidden()
			fr.SidebandBytes()
			for top := range 4 {
				_ = fr.CheckTopK(top)
			}
			_ = fr.CheckIDs(7)
			if fr.Kind.Rows() && fr.Sideband%protocol.TopKSize == 0 {
				// Its parts make the same frame again.
				same := rowbytes.Frame(fr.Header, int(fr.Rows), rowbytes.Parts{IDs: fr.IDs(), Hidden: fr.Hidden(), DType: fr.DType, Width: int(fr.Width), TopK: fr.TopK()})
				if same.Header != fr.Header || !bytes.Equal(same.Payload, fr.Payload) {
					t.Fatalf("%+v taken apart is %+v", fr.Header, same.Header)
				}
			}
			_ = fr.CheckFinite()
			_, _ = fr.Token()
			_, _ = fr.Ack()
			if fr.Err() == nil {
				t.Fatal("Err gave nil")
			}
			if wire, err = protocol.AppendFrame(wire, fr, fuzzLimits); err != nil {
				t.Fatalf("read but not written: %v", err)
			}
		}
		if !bytes.HasPrefix(data, wire) {
			t.Fatalf("read\n%x\nwrote\n%x", data, wire)
		}
	})
}

// FuzzToken: a token payload that is read writes back to the same bytes.
func FuzzToken(f *testing.F) {
	for _, tok := range []protocol.Token{
		{ID: 3, Piece: []byte("é")},
		{ID: 2, EOG: true},
		{ID: 1, Piece: []byte("a"), Logprob: -1, Top: []protocol.TokenProb{{ID: 1, Logprob: -1, Piece: []byte("a")}, {ID: 4}}},
	} {
		fr, err := protocol.TokenFrame(0, 0, 0, tok)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(fr.Payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		in := &protocol.Frame{Header: protocol.Header{Kind: protocol.KindToken}, Payload: payload}
		tok, err := in.Token()
		if err != nil {
			return
		}
		out, err := protocol.TokenFrame(0, 0, 0, tok)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(out.Payload, payload) {
			t.Fatalf("read %x, wrote %x", payload, out.Payload)
		}
	})
}

// FuzzEnvelope: every message that is read can be unpacked as any type without
// harm, and is the same after a second trip.
func FuzzEnvelope(f *testing.F) {
	for _, s := range []string{
		`{"kind":"hello","body":{"protocol":1,"role":"node","key":"AA==","sig":"AA=="}}`,
		`{"kind":"route","id":9,"body":{"model":"guide","context":100,"rtt_us":{"a":1}}}`,
		`{"kind":"report","body":{"shards":[{"state":"ready","capability":{"loaded":{"first":0,"last":4}}}],"memory_pressure":0.5}}`,
		`{"kind":"error","id":9,"body":{"code":"no_route","message":"m"}}`,
		`{"kind":"later"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := protocol.ParseEnvelope(data)
		if err != nil {
			return
		}
		_, _ = protocol.Unpack[protocol.Challenge](e)
		_, _ = protocol.Unpack[protocol.Hello](e)
		_, _ = protocol.Unpack[protocol.Report](e)
		_, _ = protocol.Unpack[protocol.RouteRequest](e)
		_, _ = protocol.Unpack[protocol.RouteReply](e)
		_, _ = protocol.Unpack[protocol.SessionUpdate](e)
		_, _ = protocol.Unpack[protocol.HopFailed](e)
		_, _ = protocol.Unpack[protocol.EndSession](e)
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) > protocol.MaxMessage {
			return // escapes made it longer than what may be sent
		}
		again, err := protocol.ParseEnvelope(b)
		if err != nil {
			t.Fatal(err)
		}
		b2, err := json.Marshal(again)
		if err != nil || !bytes.Equal(b, b2) {
			t.Fatalf("%s became %s (%v)", b, b2, err)
		}
	})
}

// FuzzLease: no bytes pass without the tracker's signature, and signed ones
// that pass keep every rule, so that they could be signed again.
func FuzzLease(f *testing.F) {
	key := testKey("tracker")
	pub := key.Public().(ed25519.PublicKey)
	now := leaseTime.Add(time.Minute)
	good, err := json.Marshal(testLease())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"hops":[{"use":{"first":0,"last":-1}}]}`))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		unsigned := &protocol.SignedLease{Lease: raw, Key: pub, Sig: raw}
		if _, err := unsigned.Verify(pub, now); err == nil {
			t.Fatal("accepted without a signature")
		}
		l, err := forge(raw, key).Verify(pub, now)
		if err != nil {
			return
		}
		s, err := protocol.SignLease(l, key)
		if err != nil {
			t.Fatalf("accepted, but cannot be signed: %v", err)
		}
		if _, err := s.Verify(pub, now); err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, h := range l.Hops {
			if h.Use.First != at {
				t.Fatalf("hops do not join: %+v", l.Hops)
			}
			at = h.Use.Last
		}
		if at != l.Layers {
			t.Fatalf("%d of %d layers", at, l.Layers)
		}
	})
}
