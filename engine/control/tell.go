package control

import "neuron/engine/protocol"

// Tell sends a message that nobody answers and that may be lost: it reports
// false, and drops it, without a connection or when the writer is behind. It
// never blocks.
func (c *Client) Tell(kind protocol.MessageKind, body any) bool {
	c.mu.Lock()
	l := c.link
	c.mu.Unlock()
	if l == nil {
		return false
	}
	e, err := protocol.Pack(kind, 0, body)
	if err != nil {
		c.o.Logger.Error("message not encoded", "kind", string(kind), "error", err)
		return false
	}
	select {
	case l.send <- e:
		return true
	default:
		return false
	}
}

// other hands a message to whoever takes more kinds than this package knows.
func (c *Client) other(l *link, e *protocol.Envelope) {
	known, err := false, error(nil)
	if c.o.OnOther != nil {
		known, err = c.o.OnOther(e)
	}
	if !known {
		err = protocol.Errorf(protocol.CodeUnknownMessage, "this build does not know %.64q", string(e.Kind))
	}
	if err != nil {
		l.complain(e, err)
	}
}
