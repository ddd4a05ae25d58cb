package session

import (
	"time"

	"neuron/engine/protocol"
	"neuron/engine/session/draft"
)

// guesses are the driver's part of drafting: a pass over the route may hold
// guesses of the next tokens behind the newest one, and gives as many tokens as
// were right, and one more. The zero value guesses nothing.
type guesses struct {
	text   *draft.Lookup // nil: no guesses in this session
	window draft.Window
	always bool // not only where it pays

	// The pass under way.
	ids   []int32 // what is guessed, and has not come yet
	class int     // how strong the match was
	asked int     // how many tokens were guessed
	sent  time.Time
	timed bool // it is a pass whose time says something
	more  bool // further tokens of it follow
}

// openGuesses allows guesses where they were not refused and every hop can
// forget what was wrong.
func (d *driver) openGuesses(hops []*protocol.OpenReply) {
	if d.o.NoDraft || d.g.req.NoDraft {
		return
	}
	for _, h := range hops {
		if !h.Report.Rewinds || h.Report.ChunkRows <= draft.Most {
			return
		}
	}
	d.guess.text, d.guess.always = draft.NewLookup(), d.o.alwaysDraft
}

// add notes tokens of the prompt or of the answer, in order.
func (g *guesses) add(ids ...int32) {
	if g.text != nil {
		g.text.Append(ids...)
	}
}

// pass sends the newest token, and guesses of the next ones if they are likely
// enough; left is how many tokens the answer may still get. What was sent
// behind the token and turned out wrong is forgotten first: the truncate goes
// ahead of the rows, and nobody waits for it.
func (d *driver) pass(id int32, left int) *protocol.Error {
	if d.sent > d.expect-1 {
		d.epoch++
		if err := d.send(protocol.ControlFrame(protocol.KindTruncate, 0, 0, d.expect-1)); err != nil {
			return err
		}
	}
	ids := append([]int32{id}, d.guess.next(left-1)...)
	kind := protocol.KindDecode
	if len(ids) > 1 {
		kind = protocol.KindVerify
	}
	f := protocol.IDFrame(kind, d.sent, ids)
	f.Flags = protocol.FlagSample
	d.guess.sent, d.guess.timed = time.Now(), true
	return d.send(f)
}

// next guesses at most most tokens.
func (g *guesses) next(most int) []int32 {
	g.ids, g.asked = nil, 0
	if g.text == nil || most <= 0 {
		return nil
	}
	ids, class := g.text.Propose(min(most, draft.Most))
	if !g.always {
		ids = ids[:g.window.Next(class, len(ids))]
	}
	g.ids, g.class = ids, class
	g.asked = len(g.ids)
	return g.ids
}

// hit reports whether t is the next guess of the pass, so that another token
// follows it.
func (g *guesses) hit(t *protocol.Token) bool {
	return !t.EOG && len(g.ids) > 0 && t.ID == g.ids[0]
}

// came notes a token of the pass; the last one tells what it took.
func (g *guesses) came(s *generation, t *protocol.Token, now time.Time) {
	if g.more = g.hit(t); g.more {
		g.ids = g.ids[1:]
		return
	}
	if g.text == nil || !g.timed {
		return
	}
	g.timed = false
	took := now.Sub(g.sent)
	if g.asked == 0 {
		g.window.Stepped(took)
		return
	}
	right := g.asked - len(g.ids)
	g.window.Checked(g.class, g.asked, right, took)
	g.ids = nil
	s.update(func(t *protocol.Telemetry) { t.Drafted, t.Accepted = t.Drafted+g.asked, t.Accepted+right })
}
