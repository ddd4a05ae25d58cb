package protocol_test

import (
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/protocol/protocoltest"
)

// jsonTypes are the JSON objects that reach a wire: bodies of control
// messages, of the seam's HTTP endpoints, and what is inside them.
var jsonTypes = map[string]any{
	"capability":       protocol.Capability{},
	"catalog":          protocol.Catalog{},
	"challenge":        protocol.Challenge{},
	"end-session":      protocol.EndSession{},
	"envelope":         protocol.Envelope{},
	"hello":            protocol.Hello{},
	"hop-failed":       protocol.HopFailed{},
	"models":           protocol.Models{},
	"open-reply":       protocol.OpenReply{},
	"open-request":     protocol.OpenRequest{},
	"peers":            protocol.Peers{},
	"place-request":    protocol.PlaceRequest{},
	"placement":        protocol.Placement{},
	"refused":          protocol.Refused{},
	"report":           protocol.Report{},
	"route-reply":      protocol.RouteReply{},
	"route-request":    protocol.RouteRequest{},
	"session-state":    protocol.SessionState{},
	"receipt-mark":     protocol.ReceiptMark{},
	"receipt-verdicts": protocol.ReceiptVerdicts{},
	"receipts":         protocol.Receipts{},
	"session-update":   protocol.SessionUpdate{},
	"telemetry":        protocol.Telemetry{},
	"welcome":          protocol.Welcome{},
	"lease":            protocol.Lease{},
}

// TestGoldenJSON holds the names and forms of all their fields.
func TestGoldenJSON(t *testing.T) { protocoltest.JSON(t, jsonTypes) }

// Fields of a newer build do not stop an older one.
func TestUnknownFieldsAreIgnored(t *testing.T) {
	t.Parallel()
	e, err := protocol.ParseEnvelope([]byte(`{"kind":"welcome","id":3,"later":[1],"body":{"node":"n","epoch":2,"new":{"a":1}}}`))
	if err != nil {
		t.Fatal(err)
	}
	w, err := protocol.Unpack[protocol.Welcome](e)
	if err != nil || w.Node != "n" || w.Epoch != 2 {
		t.Errorf("got %+v, %v", w, err)
	}
}
