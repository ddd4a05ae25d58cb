package server

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/tracker-server/receipts/receiptstest"
	"neuron/tracker-server/sessions"
)

// receiptBodies are read without the JSON decoder, or by it alone.
var receiptBodies = []struct {
	raw   string
	plain bool
}{
	{`{"receipts":["AAAA","BBBBBB==",""]}`, true},
	{`{"receipts":[""]}`, true},
	{`{"receipts":[]}`, false},
	{`{"receipts":["AAAA",]}`, false},
	{`{"receipts":["AAAA"],"receipts":["BBBB"]}`, false},
	{`{"receipts":["AAAA"]}{}`, false},
	{`{"receipts":["AA\nAA"]}`, false},
	{"{\"receipts\":[\"AA\nAA\"]}", false},
	{"{\"receipts\":[\"AA\rAA\"]}", false},
	{`{"receipts":["AA\u0041A"]}`, false},
	{`{"receipts":["AAA"]}`, false},
	{`{"receipts":["AAAA" ,"BBBB"]}`, false},
	{`{"receipts":["AAAA"`, false},
	{`{"receipts":["AAAA`, false},
	{`{"receipts":[null]}`, false},
	{`{"Receipts":["AAAA"]}`, false},
	{``, false},
}

// TestPlainReceipts: what is read without the JSON decoder is what it reads.
func TestPlainReceipts(t *testing.T) {
	t.Parallel()
	for _, b := range receiptBodies {
		if got := plainReceipts([]byte(b.raw)); (got != nil) != b.plain {
			t.Errorf("%q: plain is %t, want %t", b.raw, got != nil, b.plain)
		}
		samePlain(t, b.raw)
	}
}

func samePlain(t *testing.T, raw string) {
	t.Helper()
	got := plainReceipts([]byte(raw))
	if got == nil {
		return
	}
	want, err := protocol.Unpack[protocol.Receipts](&protocol.Envelope{Kind: protocol.MsgReceipts, Body: []byte(raw)})
	if err != nil {
		t.Errorf("%q: the JSON decoder says %v", raw, err)
		return
	}
	if diff := cmp.Diff(want.Receipts, got); diff != "" {
		t.Errorf("%q: -JSON decoder, +plain:\n%s", raw, diff)
	}
}

func FuzzPlainReceipts(f *testing.F) {
	for _, b := range receiptBodies {
		f.Add(b.raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		samePlain(t, raw)
		samePlain(t, `{"receipts":["`+raw+`"]}`)
		samePlain(t, `{"receipts":["`+base64.StdEncoding.EncodeToString([]byte(raw))+`","`+strings.TrimSpace(raw)+`"]}`)
	})
}

// TestLeaseInMemoryIsStored: receipts are judged by a lease in memory only when
// it is stored: one that could not be is forgotten, and its gateway may ask for
// the same session again.
func TestLeaseInMemoryIsStored(t *testing.T) {
	t.Parallel()
	o := Options{Listen: "127.0.0.1:0", Now: time.Now}
	if err := o.fill(); err != nil {
		t.Fatal(err)
	}
	c := newCore(o, receiptstest.Key("tracker"), nil)
	s := sessions.Session{Lease: &protocol.Lease{Session: "s", Driver: "d"}, Signed: &protocol.SignedLease{Lease: []byte("{}")}}
	c.table.Add(s)
	if signed, l := c.leaseOf("s"); signed != nil || l != nil {
		t.Errorf("a lease that is not stored: %v %v", signed, l)
	}
	c.table.Given("s")
	if signed, l := c.leaseOf("s"); signed != s.Signed || l != s.Lease {
		t.Errorf("a stored lease: %v %v", signed, l)
	}
	if signed, _ := c.leaseOf("another"); signed != nil {
		t.Errorf("an unknown one: %v", signed)
	}
	c.table.Given("another") // is of no consequence
}
