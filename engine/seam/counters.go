package seam

import "neuron/engine/protocol"

// countIn notes a row frame from the previous hop.
func countIn(c *protocol.Counters, f *protocol.Frame) {
	n := frameBytes(f)
	if f.Kind == protocol.KindPrefill {
		c.PrefillBytesIn += n
		return
	}
	c.DecodeBytesIn += n
	if f.Kind != protocol.KindVerify {
		c.LastDecodeIn = n
	}
}

// countOut notes a row frame to the next hop.
func countOut(c *protocol.Counters, kind protocol.Kind, n int64) {
	if kind == protocol.KindPrefill {
		c.PrefillBytesOut += n
		return
	}
	c.DecodeBytesOut += n
	if kind != protocol.KindVerify {
		c.LastDecodeOut = n
	}
}

// takeBackOut undoes countOut for a frame that was not sent.
func takeBackOut(c *protocol.Counters, kind protocol.Kind, n int64) {
	if kind == protocol.KindPrefill {
		c.PrefillBytesOut -= n
		return
	}
	c.DecodeBytesOut -= n
}

// countToken notes a token on its way to the driver. The first one belongs to
// the prefill that it ends.
func countToken(c *protocol.Counters, f *protocol.Frame) {
	kind := protocol.KindPrefill
	if c.DecodeSteps > 0 {
		kind = protocol.KindDecode
	}
	countOut(c, kind, frameBytes(f))
}

// countRun notes executed rows.
func countRun(c *protocol.Counters, kind protocol.Kind, a protocol.Ack) {
	c.QueueMicros += int64(a.Queue)
	if kind == protocol.KindPrefill {
		c.PrefillRows += int64(a.Rows)
		c.PrefillChunks++
		c.PrefillMicros += int64(a.Compute)
		return
	}
	c.DecodeRows += int64(a.Rows)
	c.DecodeSteps++
	c.DecodeMicros += int64(a.Compute)
}

// frameBytes is a frame's size on the wire, header included.
func frameBytes(f *protocol.Frame) int64 {
	return protocol.HeaderSize + int64(len(f.Payload))
}

// countDropped notes that decode rows were taken back, of positions from to on
// and before was. What a session that starts over gives up of its prompt is not
// counted.
func countDropped(c *protocol.Counters, was, to uint32) {
	from := max(int64(to), c.PrefillRows)
	c.DroppedRows += max(0, int64(was)-from)
}
