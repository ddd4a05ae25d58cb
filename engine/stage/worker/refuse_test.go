package worker

import (
	"encoding/json"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
)

// hiddenOf is a row frame of hidden states.
func hiddenOf(k protocol.Kind, pos uint32, rows, width int) *protocol.Frame {
	s := &session{seams: seams{dtype: protocol.DTypeF32}}
	in := &protocol.Frame{Header: protocol.Header{Kind: k, Parts: protocol.PartIDs, Pos: pos, Rows: uint32(rows)}, Payload: make([]byte, 4*rows)}
	return s.rowFrame(in, width, given{hidden: make([]float32, rows*width)})
}

// lastError is the code that the owner answered slot with, "" for none.
func (st *state) lastError(t *testing.T, slot uint32) (c protocol.Code) {
	t.Helper()
	for _, f := range st.drainOut() {
		if f.Slot != slot {
			continue
		}
		var e *protocol.Error
		var answer struct{ Error *protocol.Error }
		switch {
		case f.Kind == protocol.KindError:
			e = f.Err()
		case (f.Kind == protocol.KindOpened || f.Kind == protocol.KindReply) && json.Unmarshal(f.Payload, &answer) == nil:
			e = answer.Error
		}
		if e != nil {
			c = e.Code
		}
	}
	return c
}

// say hands the owner a frame of a slot and runs what it can run then.
func (st *state) say(f *protocol.Frame, slot uint32) {
	f.Slot = slot
	st.handle(arrival{f: f})
	for {
		group, _ := st.next(farAhead())
		if group == nil {
			return
		}
		st.step(group)
	}
}

func jsonFrame(t *testing.T, k protocol.Kind, v any) *protocol.Frame {
	t.Helper()
	f, err := protocol.JSONFrame(k, 0, v)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestWhatWouldKillTheProcessIsRefused goes through what libllama answers with
// an assertion, an endless loop or a division by zero, as far as frames and
// openings reach it: each is refused before the call, with a code, and the next
// session runs. That the process still lives is the point.
//
// What only files reach (unknown architectures, layer and expert counts,
// missing layer kinds) is refused when they are checked and cut (llama/gguf,
// llama/family, llama/cut).
func TestWhatWouldKillTheProcessIsRefused(t *testing.T) {
	const chunk = 64
	type refusal struct {
		name string
		do   func(st *state, slot uint32) // in an open session with 100 positions behind it
		want protocol.Code
	}
	head, middle := headOfGuideRows(t, 1000, chunk), partOfGuide(t, 2, 4, 1000, chunk)
	width := head.stage.Width()
	rows := func(st *state, k protocol.Kind, pos uint32, n int) *protocol.Frame {
		if st.stage.Head() {
			return protocol.IDFrame(k, pos, ids(1, int(pos), n))
		}
		return hiddenOf(k, pos, n, width)
	}
	both := []refusal{
		{"more rows than a batch holds", func(st *state, slot uint32) { st.say(rows(st, protocol.KindPrefill, 100, chunk+1), slot) }, protocol.CodeFrameInvalid},
		{"as many to verify", func(st *state, slot uint32) { st.say(rows(st, protocol.KindVerify, 100, chunk+1), slot) }, protocol.CodeFrameInvalid},
		{"more to verify than a receipt covers", func(st *state, slot uint32) {
			st.say(rows(st, protocol.KindVerify, 100, protocol.MaxSpanPositions+1), slot)
		}, protocol.CodeFrameInvalid},
		{"no rows", func(st *state, slot uint32) { st.say(rows(st, protocol.KindDecode, 100, 0), slot) }, protocol.CodeFrameInvalid},
		{"a prefill without rows", func(st *state, slot uint32) { st.say(rows(st, protocol.KindPrefill, 100, 0), slot) }, protocol.CodeFrameInvalid},
		{"a hole before the rows", func(st *state, slot uint32) { st.say(rows(st, protocol.KindDecode, 101, 1), slot) }, protocol.CodeFrameOrder},
		{"rows that are there already", func(st *state, slot uint32) { st.say(rows(st, protocol.KindDecode, 99, 1), slot) }, protocol.CodeFrameOrder},
		{"a position beyond int32", func(st *state, slot uint32) { st.say(rows(st, protocol.KindDecode, 1<<31, 1), slot) }, protocol.CodeFrameOrder},
		{"more positions than cells", func(st *state, slot uint32) {
			for pos := uint32(100); pos < 300; pos += 50 {
				st.say(rows(st, protocol.KindPrefill, pos, 50), slot)
			}
		}, protocol.CodeFrameInvalid},
		{"truncate beyond the rows", func(st *state, slot uint32) {
			st.say(protocol.ControlFrame(protocol.KindTruncate, 0, 1, 101), slot)
		}, protocol.CodeFrameOrder},
		{"a kind that no stage runs", func(st *state, slot uint32) { st.say(protocol.ControlFrame(protocol.KindFork, 0, 0, 0), slot) }, protocol.CodeFrameOrder},
		{"open twice", func(st *state, slot uint32) {
			st.say(jsonFrame(t, protocol.KindOpen, wire.Open{Session: protocol.NewSessionID(), Exit: 4, Context: 256}), slot)
		}, protocol.CodeFrameOrder},
	}
	for _, part := range []struct {
		name string
		st   *state
		more []refusal
	}{
		{"head", head, []refusal{
			{"a token beyond the vocabulary", func(st *state, slot uint32) {
				st.say(protocol.IDFrame(protocol.KindDecode, 100, []int32{1 << 20}), slot)
			}, protocol.CodeFrameInvalid},
			{"a negative token", func(st *state, slot uint32) {
				st.say(protocol.IDFrame(protocol.KindDecode, 100, []int32{-1}), slot)
			}, protocol.CodeFrameInvalid},
			{"one in the middle of a chunk", func(st *state, slot uint32) {
				st.say(protocol.IDFrame(protocol.KindPrefill, 100, []int32{1, 2, -7, 3}), slot)
			}, protocol.CodeFrameInvalid},
			{"hidden states to the head", func(st *state, slot uint32) {
				st.say(hiddenOf(protocol.KindDecode, 100, 1, width), slot)
			}, protocol.CodeFrameInvalid},
		}},
		{"middle", middle, []refusal{
			{"token ids to the middle", func(st *state, slot uint32) {
				st.say(protocol.IDFrame(protocol.KindDecode, 100, []int32{1}), slot)
			}, protocol.CodeFrameInvalid},
			{"rows to verify without their ids", func(st *state, slot uint32) {
				f := hiddenOf(protocol.KindDecode, 100, 4, width)
				f.Kind = protocol.KindVerify
				st.say(f, slot)
			}, protocol.CodeFrameInvalid},
			{"narrow rows", func(st *state, slot uint32) {
				st.say(hiddenOf(protocol.KindDecode, 100, 1, width-1), slot)
			}, protocol.CodeFrameInvalid},
			{"wide rows", func(st *state, slot uint32) {
				st.say(hiddenOf(protocol.KindDecode, 100, 1, width+1), slot)
			}, protocol.CodeFrameInvalid},
			{"rows of another type", func(st *state, slot uint32) {
				f := hiddenOf(protocol.KindDecode, 100, 1, width)
				f.DType = protocol.DTypeF16
				st.say(f, slot)
			}, protocol.CodeFrameInvalid},
			{"a vocabulary that is not there", func(st *state, slot uint32) {
				st.say(jsonFrame(t, protocol.KindCall, wire.Call{Op: wire.OpTokenize, Text: "x", AddSpecial: true}), slot)
			}, protocol.CodeUnsupported},
			{"pieces of a vocabulary that is not there", func(st *state, slot uint32) {
				st.say(jsonFrame(t, protocol.KindCall, wire.Call{Op: wire.OpDetokenize, IDs: []int32{5}}), slot)
			}, protocol.CodeUnsupported},
		}},
	} {
		st, slot := part.st, uint32(0)
		open := func(o wire.Open) uint32 {
			slot++
			o.Session = protocol.NewSessionID()
			st.say(jsonFrame(t, protocol.KindOpen, o), slot)
			return slot
		}
		for _, c := range []struct {
			name string
			open wire.Open
			want protocol.Code
		}{
			{"an exit before the range", wire.Open{Exit: part.st.cfg.First, Context: 256}, protocol.CodeRangeInvalid},
			{"an exit behind the range", wire.Open{Exit: 5, Context: 256}, protocol.CodeRangeInvalid},
			{"a negative exit", wire.Open{Exit: -1, Context: 256}, protocol.CodeRangeInvalid},
			{"no context", wire.Open{Exit: 4}, protocol.CodeContextExceeded},
			{"a negative context", wire.Open{Exit: 4, Context: -1}, protocol.CodeContextExceeded},
			{"a context beyond the model", wire.Open{Exit: 4, Context: 2049}, protocol.CodeContextExceeded},
			{"a context that overflows", wire.Open{Exit: 4, Context: 1<<62 + 1}, protocol.CodeContextExceeded},
		} {
			if got := st.lastError(t, open(c.open)); got != c.want {
				t.Errorf("%s: %s: code %q, want %s", part.name, c.name, got, c.want)
			}
		}
		for _, c := range append(both, part.more...) {
			n := open(wire.Open{Exit: 4, Context: 256})
			st.say(rows(st, protocol.KindPrefill, 0, 50), n)
			st.say(rows(st, protocol.KindPrefill, 50, 50), n)
			if got := st.lastError(t, n); got != "" {
				t.Fatalf("%s: %s: a session in order got %s", part.name, c.name, got)
			}
			c.do(st, n)
			if got := st.lastError(t, n); got != c.want {
				t.Errorf("%s: %s: code %q, want %s", part.name, c.name, got, c.want)
			}
			st.say(protocol.ControlFrame(protocol.KindClose, 0, 0, 0), n)
			if len(st.sessions) != 0 {
				t.Fatalf("%s: %s: %d sessions are left", part.name, c.name, len(st.sessions))
			}
		}
		// And after all that it works.
		n := open(wire.Open{Exit: 4, Context: 256})
		st.drainOut()
		st.say(rows(st, protocol.KindPrefill, 0, chunk), n)
		answered := false
		for _, f := range st.drainOut() {
			answered = answered || f.Kind == protocol.KindPrefill && f.Rows == chunk
		}
		if !answered {
			t.Errorf("%s: no rows after the refusals", part.name)
		}
	}
}
