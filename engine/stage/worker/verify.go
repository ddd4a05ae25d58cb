package worker

import (
	"neuron/engine/protocol"
	"neuron/llama/exec"
)

// A verify frame holds the newest token of an answer and guesses of the next
// ones. The tail computes logits for all of its rows and draws row by row with
// the session's own sampler, as far as the guesses are what it draws: the
// answer is the one without guesses, whatever the sampler, and the sampler has
// seen no token that does not stand.

// checkVerify refuses verify frames that cannot be computed or accounted for.
func (st *state) checkVerify(s *session, f *protocol.Frame) error {
	switch {
	case f.Rows > protocol.MaxSpanPositions:
		return protocol.Errorf(protocol.CodeFrameInvalid, "a verify frame of %d rows, at most %d", f.Rows, protocol.MaxSpanPositions)
	case f.Parts&protocol.PartIDs == 0:
		return protocol.Errorf(protocol.CodeFrameInvalid, "a verify frame without the ids of its rows")
	case s.sampler == nil || f.Flags&protocol.FlagSample != 0:
		return nil
	}
	return protocol.Errorf(protocol.CodeFrameInvalid, "a verify frame that asks for no token")
}

// callRows is how many rows a call that begins with s's front frame may have.
func (st *state) callRows(s *session) int {
	if s.queue[0].f.Kind == protocol.KindVerify && s.sampler != nil {
		return min(st.cfg.ChunkRows, exec.TailRows)
	}
	return st.cfg.ChunkRows
}

// verify draws the tokens of a verify frame whose first row has the batch index
// first. Each but the last is the guess of the row behind it. With an error
// come the tokens before it.
func (st *state) verify(s *session, f *protocol.Frame, first int) ([]*protocol.Frame, error) {
	var out []*protocol.Frame
	ids := f.IDs()
	for i := range ids {
		tok, err := st.sample(s, f, f.Pos+uint32(i)+1, first+i)
		if err != nil {
			return out, err
		}
		out = append(out, tok)
		t, err := tok.Token()
		if err != nil {
			return out, err
		}
		if t.EOG || i+1 == len(ids) || t.ID != ids[i+1] {
			break
		}
		tok.Flags |= protocol.FlagMore
	}
	return out, nil
}
