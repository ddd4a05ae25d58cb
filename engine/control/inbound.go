package control

import (
	"net"

	"neuron/engine/protocol"
)

// maxPeers bounds one peers message.
const maxPeers = 1024

// inbound acts on one message of the tracker, which is hostile until checked.
// An error ends the connection.
func (c *Client) inbound(l *link, e *protocol.Envelope) error {
	switch e.Kind {
	case protocol.MsgLease, protocol.MsgModels, protocol.MsgPlace, protocol.MsgReceipts:
		l.answer(e)
	case protocol.MsgError:
		if e.ID != 0 {
			l.answer(e)
			return nil
		}
		pe, _ := protocol.Unpack[protocol.Error](e)
		pe = cleanError(pe, protocol.CodeUnavailable, "the tracker reported an error")
		if pe.Code == protocol.CodeSuperseded {
			return &farewell{err: pe}
		}
		c.o.Logger.Warn("tracker reported an error", "code", pe.Code, "reason", pe.Message)
	case protocol.MsgRefused, protocol.MsgBye:
		return refusal(e)
	case protocol.MsgPeers:
		p, err := protocol.Unpack[protocol.Peers](e)
		if err != nil {
			l.complain(e, err)
			return nil
		}
		if c.o.OnPeers != nil {
			c.o.OnPeers(c.goodPeers(p.Peers))
		}
	case protocol.MsgEndSession:
		s, err := protocol.Unpack[protocol.EndSession](e)
		if err == nil {
			_, err = protocol.ParseSessionID(string(s.Session))
		}
		if err != nil {
			l.complain(e, err)
			return nil
		}
		if c.o.OnEndSession != nil {
			c.o.OnEndSession(s.Session, cleanError(s.Error, protocol.CodeHopLost, "the tracker ended the session"))
		}
	default:
		c.other(l, e)
	}
	return nil
}

func (c *Client) goodPeers(in []protocol.Peer) []protocol.Peer {
	if len(in) > maxPeers {
		in = in[:maxPeers]
	}
	out := make([]protocol.Peer, 0, len(in))
	for _, p := range in {
		if _, err := protocol.ParseNodeID(string(p.Node)); err != nil || p.Node == c.o.Identity.ID() {
			continue
		}
		if _, _, err := net.SplitHostPort(p.Addr); err == nil && len(p.Addr) <= 300 {
			out = append(out, p)
		}
	}
	return out
}

// complain answers a message that we cannot use, unless the writer is behind:
// a flood of nonsense must not fill memory or block reading.
func (l *link) complain(e *protocol.Envelope, err error) {
	a, perr := protocol.Pack(protocol.MsgError, e.ID, protocol.AsError(err))
	if perr != nil {
		return
	}
	select {
	case l.send <- a:
	default:
	}
}
