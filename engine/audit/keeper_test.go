package audit

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

func wantCode(t *testing.T, err error, code protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: code}) {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// hidden is a row frame whose rows hold v, v+1, ...
func hidden(kind protocol.Kind, pos uint32, rows, width int, v float32) *protocol.Frame {
	x := make([]float32, rows*width)
	for i := range x {
		x[i] = v + float32(i)
	}
	p := protocol.F32Bytes(x)
	return &protocol.Frame{
		Header:  protocol.Header{Kind: kind, DType: protocol.DTypeF32, Parts: protocol.PartHidden, Pos: pos, Rows: uint32(rows), Width: uint32(width), Length: uint32(len(p))},
		Payload: p,
	}
}

func keep(s protocol.SessionID, side auditmsg.AuditSide, rows, seconds int) auditmsg.AuditKeep {
	return auditmsg.AuditKeep{Session: s, Side: side, Rows: rows, Seconds: seconds}
}

func want(t *testing.T, k *Keeper, w auditmsg.AuditKeep) {
	t.Helper()
	if err := k.Want(w); err != nil {
		t.Fatal(err)
	}
}

func size(t *testing.T, k *Keeper, sides int, bytes int64) {
	t.Helper()
	if s, b := k.Size(); s != sides || b != bytes {
		t.Errorf("%d sides and %d bytes are kept, want %d and %d", s, b, sides, bytes)
	}
}

func TestKeeperKeepsWhatIsWanted(t *testing.T) {
	t.Parallel()
	k := NewKeeper(nil)
	s, other := protocol.NewSessionID(), protocol.NewSessionID()
	want(t, k, keep(s, auditmsg.AuditOutput, 5, 600))
	f := hidden(protocol.KindPrefill, 0, 3, 2, 1)
	f.Slot = 9
	k.Received(other, f)
	k.Sent(s, f) // the other side of the same session
	size(t, k, 1, 0)
	k.Received(s, f)
	clear(f.Payload) // its owner goes on with it
	k.Received(s, hidden(protocol.KindDecode, 3, 1, 2, 7))
	k.Received(s, hidden(protocol.KindVerify, 4, 2, 2, 7)) // more than wanted: not kept in part
	k.Received(s, hidden(protocol.KindDecode, 4, 1, 2, 7)) // and nothing after it
	size(t, k, 1, 4*2*4)
	got, err := k.Take(s, auditmsg.AuditOutput)
	if err != nil || len(got) != 2 || got[0].Slot != 0 || got[0].Rows != 3 || got[1].Pos != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if r, err := join(got, false, 2); err != nil || r.hidden[0] != 1 || r.hidden[5] != 6 || r.n() != 4 {
		t.Errorf("%+v, %v", r, err)
	}
	size(t, k, 0, 0)
	_, err = k.Take(s, auditmsg.AuditOutput)
	wantCode(t, err, protocol.CodeNotFound)
}

func TestKeeperStopsAtARollback(t *testing.T) {
	t.Parallel()
	k := NewKeeper(nil)
	s := protocol.NewSessionID()
	want(t, k, keep(s, auditmsg.AuditInput, 100, 600))
	k.Sent(s, hidden(protocol.KindPrefill, 0, 3, 2, 1))
	again := hidden(protocol.KindDecode, 2, 1, 2, 1)
	again.Epoch = 1
	k.Sent(s, again)
	k.Sent(s, hidden(protocol.KindDecode, 3, 1, 2, 1))
	if got, err := k.Take(s, auditmsg.AuditInput); err != nil || len(got) != 1 {
		t.Errorf("%d frames, %v", len(got), err)
	}
}

func TestKeeperTooLate(t *testing.T) {
	t.Parallel()
	k := NewKeeper(nil)
	s := protocol.NewSessionID()
	want(t, k, keep(s, auditmsg.AuditInput, 100, 600))
	k.Sent(s, hidden(protocol.KindPrefill, 64, 3, 2, 1))
	_, err := k.Take(s, auditmsg.AuditInput)
	wantCode(t, err, protocol.CodeNotFound)
}

func TestKeeperForgetsAfterItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewKeeper(nil)
		s := protocol.NewSessionID()
		want(t, k, keep(s, auditmsg.AuditInput, 100, 600))
		k.Sent(s, hidden(protocol.KindPrefill, 0, 3, 2, 1))
		time.Sleep(10*time.Minute - time.Second)
		k.Sweep()
		size(t, k, 1, 24)
		time.Sleep(time.Second)
		k.Sweep()
		size(t, k, 0, 0)
		_, err := k.Take(s, auditmsg.AuditInput)
		wantCode(t, err, protocol.CodeNotFound)
	})
}

func TestKeeperBounds(t *testing.T) {
	t.Parallel()
	k := NewKeeper(nil)
	wantCode(t, k.Want(keep("x", auditmsg.AuditInput, 1, 1)), protocol.CodeInvalidRequest)
	var ids []protocol.SessionID
	for range maxKept {
		ids = append(ids, protocol.NewSessionID())
		want(t, k, keep(ids[len(ids)-1], auditmsg.AuditInput, auditmsg.MaxAuditRows, 600))
	}
	wantCode(t, k.Want(keep(protocol.NewSessionID(), auditmsg.AuditInput, 1, 1)), protocol.CodeRateLimited)
	want(t, k, keep(ids[0], auditmsg.AuditInput, 1, 1)) // known: no second place
	// A frame that fits a quarter of all, so that the fifth does not fit.
	big := hidden(protocol.KindPrefill, 0, 512, maxKeptBytes/4/512/4, 0)
	for _, id := range ids {
		k.Sent(id, big)
	}
	size(t, k, maxKept, maxKeptBytes)
	_, err := k.Take(ids[4], auditmsg.AuditInput)
	wantCode(t, err, protocol.CodeRequestTooLarge)
	next := hidden(protocol.KindPrefill, 512, 512, maxKeptBytes/4/512/4, 0)
	if _, err := k.Take(ids[0], auditmsg.AuditInput); err != nil {
		t.Fatal(err)
	}
	k.Sent(ids[1], next) // room again: its second quarter
	k.Sent(ids[2], next) // full
	if got, err := k.Take(ids[2], auditmsg.AuditInput); err != nil || len(got) != 1 {
		t.Errorf("%d frames, %v", len(got), err)
	}
	want(t, k, auditmsg.AuditKeep{Session: ids[1], Side: auditmsg.AuditInput, Drop: true})
	size(t, k, maxKept-4, maxKeptBytes/4)
}
