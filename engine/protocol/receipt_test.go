package protocol_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/protocoltest"
	"neuron/engine/protocol/spans"

	"github.com/google/go-cmp/cmp"
)

func receiptPub(name string) ed25519.PublicKey { return testKey(name).Public().(ed25519.PublicKey) }

// testReceipt is what hop 0 of testLease signs after a first chunk of 64 ids.
func testReceipt() *protocol.Receipt {
	l := testLease()
	signed, err := protocol.SignLease(l, testKey("tracker"))
	if err != nil {
		panic(err)
	}
	ids := make([]int32, 64)
	for i := range ids {
		ids[i] = int32(i)
	}
	in := protocol.IDFrame(protocol.KindPrefill, 0, ids)
	out := &protocol.Frame{
		Header: protocol.Header{
			Kind: protocol.KindPrefill, DType: protocol.DTypeF32, Parts: protocol.PartHidden, Rows: 64, Width: 4, Length: 64 * 16,
		},
		Payload: protocol.F32Bytes(make([]float32, 64*4)),
	}
	collector := spans.New(l.Session, 0, 2)
	for _, err := range []error{collector.In(in), collector.Executed(0, 0), collector.Out(out), collector.Acked(0, 0)} {
		if err != nil {
			panic(err)
		}
	}
	return &protocol.Receipt{
		Session: l.Session, Lease: signed.Hash(), Model: l.Model, Node: l.Hops[0].Node, Receiver: l.Hops[1].Node,
		Hop: 0, Layers: l.Hops[0].Use, DType: l.DType, Span: collector.Take()[0],
		Class: protocol.Class{Threads: 1, CPU: "haswell", Llama: "v0.4.0", Engine: "0.2.0"},
		Time:  leaseTime.Add(1500 * time.Millisecond),
	}
}

func testSignedReceipt(t testing.TB, r *protocol.Receipt) *protocol.SignedReceipt {
	t.Helper()
	s, err := protocol.SignReceipt(r, testKey("a"))
	if err != nil {
		t.Fatal(err)
	}
	return s.Countersign(testKey("b"))
}

// dumpReceipt writes the wire form with a name for each field.
func dumpReceipt(b []byte) string {
	var s strings.Builder
	off := 0
	for _, f := range []struct {
		size int
		name string
	}{
		{4, "magic"}, {1, "version"}, {1, "kind"}, {1, "flags"}, {1, "dtype"}, {16, "session"}, {32, "lease"}, {32, "model"},
		{32, "node"}, {32, "receiver"}, {2, "hop"}, {1, "threads"}, {1, "reserved"}, {4, "layer_first"}, {4, "layer_last"},
		{4, "seq"}, {4, "epoch_first"}, {4, "epoch_last"}, {4, "pos_first"}, {4, "pos_last"}, {4, "rows"}, {8, "time_ms"},
		{32, "input"}, {32, "output"}, {32, "cpu"}, {32, "llama"}, {48, "engine"},
		{32, "key"}, {64, "sig"}, {32, "receiver_key"}, {64, "receiver_sig"},
	} {
		for rest := f.size; rest > 0; rest -= 32 {
			n := min(rest, 32)
			fmt.Fprintf(&s, "%4d %-12s %s\n", off, f.name, hex.EncodeToString(b[off:off+n]))
			off += n
		}
	}
	return s.String()
}

// receiptsPage shows the golden receipt as its example.
const receiptsPage = "../../docs/protocol/receipts.md"

// TestGoldenReceipt holds the bytes of a receipt. A change here makes receipts
// that lie on disks void: it needs a new ReceiptVersion.
func TestGoldenReceipt(t *testing.T) {
	const path = "testdata/golden/receipt-signed.txt"
	input, _ := protocoltest.Split(t, path)
	wire := testSignedReceipt(t, testReceipt()).Encode()
	want := protocoltest.Golden(t, path, input, dumpReceipt(wire))
	page, err := os.ReadFile(receiptsPage)
	if err != nil {
		t.Fatal(err)
	}
	if *protocoltest.Update {
		example := regexp.MustCompile("(?s)```text\n   0 magic.*?```\n")
		page = example.ReplaceAllLiteral(page, []byte("```text\n"+want+"```\n"))
		if err := os.WriteFile(receiptsPage, page, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !strings.Contains(string(page), "```text\n"+want+"```\n") {
		t.Errorf("docs/protocol/receipts.md does not show this example:\n%s", want)
	}
}

func TestReceiptRoundTrip(t *testing.T) {
	t.Parallel()
	want := testReceipt()
	s := testSignedReceipt(t, want)
	back, got, err := protocol.ParseSignedReceipt(s.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(s, back); d != "" || !back.Both() || back.ID() != s.ID() {
		t.Error(d)
	}
	half, err := protocol.SignReceipt(want, testKey("a"))
	if err != nil {
		t.Fatal(err)
	}
	back, _, err = protocol.ParseSignedReceipt(half.Encode())
	if err != nil || back.Both() || back.ID() != s.ID() {
		t.Errorf("half-signed: %v, %+v", err, back)
	}
	if _, err := protocol.SignReceipt(want, testKey("b")); err == nil {
		t.Error("another node's key signed")
	}
}

// Every byte is under the signatures, and a signature of one role does not pass
// for the other.
func TestReceiptSignatures(t *testing.T) {
	t.Parallel()
	r := testReceipt()
	wire := testSignedReceipt(t, r).Encode()
	for i := range wire {
		bad := bytes.Clone(wire)
		bad[i] ^= 0x10
		if _, _, err := protocol.ParseSignedReceipt(bad); err == nil {
			t.Fatalf("a change of byte %d goes unseen", i)
		}
	}
	unauthorized := &protocol.Error{Code: protocol.CodeUnauthorized}
	unsigned := &protocol.SignedReceipt{Body: wire[:protocol.ReceiptSize], Key: receiptPub("a")}
	if _, _, err := protocol.ParseSignedReceipt(unsigned.Encode()); !errors.Is(err, unauthorized) {
		t.Errorf("unsigned: %v", err)
	}
	// A driver that is its own tail signs twice, and differently.
	r.Receiver = r.Node
	half, err := protocol.SignReceipt(r, testKey("a"))
	if err != nil {
		t.Fatal(err)
	}
	full := half.Countersign(testKey("a"))
	if _, _, err := protocol.ParseSignedReceipt(full.Encode()); err != nil {
		t.Error(err)
	}
	full.ReceiverSig = full.Sig
	if _, _, err := protocol.ParseSignedReceipt(full.Encode()); !errors.Is(err, unauthorized) {
		t.Errorf("one signature for both roles: %v", err)
	}
}

func TestReceiptRules(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(r *protocol.Receipt){
		"session":          func(r *protocol.Receipt) { r.Session = "s-1" },
		"model":            func(r *protocol.Receipt) { r.Model = "x" },
		"node":             func(r *protocol.Receipt) { r.Node = "x" },
		"receiver":         func(r *protocol.Receipt) { r.Receiver = "" },
		"hop":              func(r *protocol.Receipt) { r.Hop = protocol.MaxHops },
		"layers":           func(r *protocol.Receipt) { r.Layers.Last = r.Layers.First },
		"dtype":            func(r *protocol.Receipt) { r.DType = protocol.DTypeNone },
		"time":             func(r *protocol.Receipt) { r.Time = r.Time.Add(time.Microsecond) },
		"threads":          func(r *protocol.Receipt) { r.Class.Threads = 0 },
		"long text":        func(r *protocol.Receipt) { r.Class.CPU = strings.Repeat("x", 33) },
		"control in text":  func(r *protocol.Receipt) { r.Class.Llama = "a\nb" },
		"kind":             func(r *protocol.Receipt) { r.Span.Kind = 3 },
		"no rows":          func(r *protocol.Receipt) { r.Span.Rows, r.Span.Last = 0, r.Span.First },
		"backwards":        func(r *protocol.Receipt) { r.Span.First = r.Span.Last + 1 },
		"beyond context":   func(r *protocol.Receipt) { r.Span.First, r.Span.Last = protocol.MaxContext, protocol.MaxContext+64 },
		"fewer rows":       func(r *protocol.Receipt) { r.Span.Rows-- },
		"prefill too long": func(r *protocol.Receipt) { r.Span.Last, r.Span.Rows = 513, 513 },
		"prefill rolled":   func(r *protocol.Receipt) { r.Span.Rows++ },
		"decode too long":  func(r *protocol.Receipt) { r.Span.Kind = protocol.SpanDecode },
		"decode rolled without an epoch": func(r *protocol.Receipt) {
			r.Span.Kind, r.Span.Last = protocol.SpanDecode, 5
		},
		"epochs": func(r *protocol.Receipt) { r.Span.EpochFirst = 1 },
	} {
		r := testReceipt()
		change(r)
		if _, err := r.Encode(); !errors.Is(err, &protocol.Error{Code: protocol.CodeReceiptInvalid}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	other := testSignedReceipt(t, testReceipt()).Encode()
	other[4] = 2
	if _, _, err := protocol.ParseSignedReceipt(other); !errors.Is(err, &protocol.Error{Code: protocol.CodeProtocolVersion}) {
		t.Errorf("version 2: %v", err)
	}
	many := protocol.Receipts{Receipts: make([][]byte, protocol.MaxReceiptBatch+1)}
	if err := many.Check(); !errors.Is(err, &protocol.Error{Code: protocol.CodeRequestTooLarge}) {
		t.Errorf("a large batch: %v", err)
	}
}

// A full batch fits a message of the control channel.
func TestReceiptBatchFits(t *testing.T) {
	t.Parallel()
	var r protocol.Receipts
	for range protocol.MaxReceiptBatch {
		r.Receipts = append(r.Receipts, bytes.Repeat([]byte{255}, protocol.SignedReceiptSize))
	}
	e, err := protocol.Pack(protocol.MsgReceipts, 1<<63, r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(e)
	if err != nil || len(b) > protocol.MaxMessage {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	if _, err := protocol.ParseEnvelope(b); err != nil {
		t.Error(err)
	}
}

// FuzzReceipt: what is read writes back to the same bytes, and nothing passes
// without the signatures.
func FuzzReceipt(f *testing.F) {
	good := testSignedReceipt(f, testReceipt())
	f.Add(good.Encode())
	f.Add(good.Body)
	r := testReceipt()
	r.Span = protocol.Span{Kind: protocol.SpanDecode, Seq: 3, EpochFirst: 1, EpochLast: 4, First: 100, Last: 120, Rows: 77, Final: true}
	f.Add(testSignedReceipt(f, r).Encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) >= protocol.ReceiptSize {
			body := data[:protocol.ReceiptSize]
			r, err := protocol.ParseReceipt(body)
			if err == nil {
				again, err := r.Encode()
				if err != nil || !bytes.Equal(again, body) {
					t.Fatalf("read\n%x\nwrote\n%x (%v)", body, again, err)
				}
				// A span never overlaps itself under another number.
				later := r.Span
				later.Seq++
				if r.Span.Before(&later) && r.Span.Overlaps(&later) {
					t.Fatalf("%+v follows itself", r.Span)
				}
			} else if protocol.AsError(err).Code == protocol.CodeInternal {
				t.Fatal(err)
			}
		}
		s, _, err := protocol.ParseSignedReceipt(data)
		if err != nil {
			if protocol.AsError(err).Code == protocol.CodeInternal {
				t.Fatal(err)
			}
			return
		}
		if !bytes.Equal(s.Encode(), data) {
			t.Fatal("a signed receipt has two forms")
		}
	})
}
