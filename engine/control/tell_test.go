package control_test

import (
	"testing"

	"neuron/engine/control"
	"neuron/engine/control/controltest"
	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

// TestOtherKinds: kinds that this package does not know go to whoever takes
// them, whose errors are answered; what nobody knows is answered as before.
func TestOtherKinds(t *testing.T) {
	t.Parallel()
	tr := controltest.New(t)
	got := make(chan *protocol.Envelope, 4)
	c, _, _ := start(t, control.Options{URL: tr.URL(), Role: protocol.RoleNode, OnOther: func(e *protocol.Envelope) (bool, error) {
		if e.Kind != auditmsg.MsgAuditKeep {
			return false, nil
		}
		got <- e
		k, err := protocol.Unpack[auditmsg.AuditKeep](e)
		if err == nil {
			err = k.Check()
		}
		return true, err
	}})
	if c.Tell(auditmsg.MsgAuditReady, auditmsg.AuditReady{}) && !c.Connected() {
		t.Error("a message was sent without a connection")
	}
	eventually(t, "connection", c.Connected)
	tr.Send(auditmsg.MsgAuditKeep, auditmsg.AuditKeep{Session: protocol.NewSessionID(), Side: auditmsg.AuditInput, Rows: 1, Seconds: 1})
	<-got
	tr.Send(auditmsg.MsgAuditKeep, auditmsg.AuditKeep{})
	<-got
	tr.Send(auditmsg.MsgAuditRun, auditmsg.AuditRun{})
	r := tr.Wait(t, "complaints", func(r controltest.Record) bool { return len(r.Errors) == 2 })
	if r.Errors[0].Code != protocol.CodeInvalidRequest || r.Errors[1].Code != protocol.CodeUnknownMessage {
		t.Errorf("complaints %v", r.Errors)
	}
	if c.Tell(auditmsg.MsgAuditReady, make(chan int)) {
		t.Error("a message that cannot be encoded was sent")
	}
	// What is told arrives: this tracker answers kinds that it does not know.
	if !c.Tell(protocol.MsgError, protocol.Errorf(protocol.CodeTimeout, "told")) {
		t.Fatal("not sent")
	}
	tr.Wait(t, "what was told", func(r controltest.Record) bool {
		return len(r.Errors) == 3 && r.Errors[2].Message == "told"
	})
}
