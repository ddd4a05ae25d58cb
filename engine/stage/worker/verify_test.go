package worker

import (
	"slices"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
)

// ask hands the owner a row frame that asks for a token and returns what it
// said; the last token has no FlagMore, all others have.
func (st *state) ask(t *testing.T, slot uint32, k protocol.Kind, epoch, pos uint32, ids ...int32) []int32 {
	t.Helper()
	f := protocol.IDFrame(k, pos, ids)
	f.Epoch, f.Flags = epoch, protocol.FlagSample
	st.say(f, slot)
	return tokensOf(t, st.drainOut(), slot, f)
}

func tokensOf(t *testing.T, frames []*protocol.Frame, slot uint32, rows *protocol.Frame) (out []int32) {
	t.Helper()
	first := rows.Pos + 1
	if rows.Kind != protocol.KindVerify {
		first = rows.Pos + rows.Rows
	}
	more := true
	for _, f := range frames {
		if f.Slot != slot {
			continue
		}
		switch f.Kind {
		case protocol.KindError:
			t.Fatalf("slot %d: %v", slot, f.Err())
		case protocol.KindToken:
			tok, err := f.Token()
			if err != nil {
				t.Fatal(err)
			}
			if want := first + uint32(len(out)); f.Pos != want || f.Epoch != rows.Epoch || !more {
				t.Errorf("token at %d of epoch %d, want %d of %d", f.Pos, f.Epoch, want, rows.Epoch)
			}
			more = f.Flags&protocol.FlagMore != 0
			out = append(out, tok.ID)
		}
	}
	if more {
		t.Errorf("the last of %d tokens says that more follow", len(out))
	}
	return out
}

// openTail opens a session of the whole model.
func (st *state) openTail(t *testing.T, slot uint32) {
	t.Helper()
	st.say(jsonFrame(t, protocol.KindOpen, wire.Open{
		Session: protocol.NewSessionID(), Exit: 8, Context: 256, Sampler: &protocol.Sampler{IgnoreEOG: true},
	}), slot)
	st.drainOut()
}

// The tail draws as far as the guesses are right, and after a truncate the
// session goes on as if there had been none.
func TestVerify(t *testing.T) {
	st := partOfGuide(t, 0, 8, 8, 64)
	if !st.rewinds {
		t.Error("the stage says that it cannot forget positions")
	}
	prompt := ids(3, 0, 20)
	st.openTail(t, 1)
	ref := st.ask(t, 1, protocol.KindPrefill, 0, 0, prompt...)
	for pos := uint32(20); len(ref) < 16; pos++ {
		ref = append(ref, st.ask(t, 1, protocol.KindDecode, 0, pos, ref[len(ref)-1])...)
	}
	wrong := func(id int32) int32 { return (id + 1) % 2000 }

	st.openTail(t, 2)
	want := func(got []int32, expect ...int32) {
		t.Helper()
		if !slices.Equal(got, expect) {
			t.Fatalf("tokens %v, want %v", got, expect)
		}
	}
	truncate := func(epoch, pos uint32) {
		st.say(protocol.ControlFrame(protocol.KindTruncate, 0, epoch, pos), 2)
	}
	want(st.ask(t, 2, protocol.KindPrefill, 0, 0, prompt...), ref[0])
	want(st.ask(t, 2, protocol.KindVerify, 0, 20, ref[0], ref[1], ref[2], wrong(ref[3])), ref[1:4]...)
	truncate(1, 23)
	want(st.ask(t, 2, protocol.KindVerify, 1, 23, ref[3], wrong(ref[4]), ref[5], ref[6]), ref[4])
	truncate(2, 24)
	want(st.ask(t, 2, protocol.KindVerify, 2, 24, ref[4:12]...), ref[5:13]...)
	want(st.ask(t, 2, protocol.KindDecode, 2, 32, ref[12]), ref[13])
	want(st.ask(t, 2, protocol.KindVerify, 2, 33, ref[13]), ref[14]) // no guess in it
	if n := st.sessions[2].nextPos; n != 34 {
		t.Errorf("%d positions stand, want 34", n)
	}
}

// Verify frames of equal width share a call, as many as it may have rows with
// logits; each session gets its own tokens.
func TestVerifyOfSeveralSessions(t *testing.T) {
	st := partOfGuide(t, 0, 8, 8, 128)
	const sessions, width = 4, 32 // twice the rows of a call
	var frames []*protocol.Frame
	var alone [][]int32
	for _, together := range []bool{false, true} {
		for i := range sessions {
			slot := uint32(i + 1)
			st.openTail(t, slot)
			first := st.ask(t, slot, protocol.KindPrefill, 0, 0, ids(i, 0, 20)...)
			guess := append(first, slices.Repeat([]int32{5}, width-1)...)
			if !together {
				alone = append(alone, st.ask(t, slot, protocol.KindVerify, 0, 20, guess...))
				continue
			}
			f := protocol.IDFrame(protocol.KindVerify, 20, guess)
			f.Slot, f.Flags = slot, protocol.FlagSample
			frames = append(frames, f)
		}
		if !together {
			for i := range sessions {
				st.say(protocol.ControlFrame(protocol.KindClose, 0, 0, 0), uint32(i+1))
			}
			st.drainOut()
		}
	}
	for _, f := range frames {
		st.handle(arrival{f: f})
	}
	calls := 0
	for {
		group, _ := st.next(farAhead())
		if group == nil {
			break
		}
		calls++
		st.step(group)
	}
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
	out := st.drainOut()
	for i, f := range frames {
		if got := tokensOf(t, out, f.Slot, f); !slices.Equal(got, alone[i]) {
			t.Errorf("session %d: %v, alone %v", i, got, alone[i])
		}
	}
}
