package channel

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

// often are the messages that come many times a second, and whose body is always
// unpacked.
var often = map[string]protocol.MessageKind{
	string(protocol.MsgReport): protocol.MsgReport, string(protocol.MsgRoute): protocol.MsgRoute,
	string(protocol.MsgSession): protocol.MsgSession, string(protocol.MsgReceipts): protocol.MsgReceipts,
}

// parse is protocol.ParseEnvelope. Of messages that come often and are written
// as our engines write them it looks for the ends only, and leaves the body to
// who unpacks it: so each byte is read by the JSON decoder once, and not thrice.
// The body then is a part of raw, and may not be JSON.
func parse(raw []byte) (*protocol.Envelope, error) {
	if e := quick(raw); e != nil {
		return e, nil
	}
	return protocol.ParseEnvelope(raw)
}

// quick reads {"kind":"...","id":...,"body":{...}}; nil for anything else.
func quick(raw []byte) *protocol.Envelope {
	if len(raw) > protocol.MaxMessage {
		return nil
	}
	rest, ok := bytes.CutPrefix(raw, []byte(`{"kind":"`))
	if !ok {
		return nil
	}
	name, rest, ok := bytes.Cut(rest, []byte(`",`))
	if !ok {
		return nil
	}
	kind, ok := often[string(name)]
	if !ok {
		return nil
	}
	e := &protocol.Envelope{Kind: kind}
	if number, ok := bytes.CutPrefix(rest, []byte(`"id":`)); ok {
		n := 0
		for n < len(number) && number[n] >= '0' && number[n] <= '9' {
			n++
		}
		var err error
		if e.ID, err = strconv.ParseUint(string(number[:n]), 10, 64); err != nil || number[0] == '0' || n == len(number) || number[n] != ',' {
			return nil
		}
		rest = number[n+1:]
	}
	body, ok := bytes.CutPrefix(rest, []byte(`"body":`))
	if !ok || len(body) == 0 || objectEnd(body) != len(body)-1 || body[len(body)-1] != '}' {
		return nil
	}
	e.Body = body[:len(body)-1]
	return e
}

// objectEnd is the length of the object at the start of b, if there is one and
// it is JSON; else it is anything.
func objectEnd(b []byte) int {
	if len(b) == 0 || b[0] != '{' {
		return -1
	}
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		case '"':
			for i++; ; i++ { // behind the text
				n := bytes.IndexByte(b[i:], '"')
				if n < 0 {
					return -1
				}
				slashes := 0
				for slashes < n && b[i+n-1-slashes] == '\\' {
					slashes++
				}
				if i += n; slashes%2 == 0 {
					break
				}
			}
		}
	}
	return -1
}

// encode is json.Marshal for an envelope of protocol.Pack, whose body is JSON
// already.
func encode(e *protocol.Envelope) ([]byte, error) {
	kind, err := json.Marshal(e.Kind)
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, len(kind)+len(e.Body)+48)
	b = append(append(b, `{"kind":`...), kind...)
	if e.ID != 0 {
		b = strconv.AppendUint(append(b, `,"id":`...), e.ID, 10)
	}
	if len(e.Body) > 0 {
		b = append(append(b, `,"body":`...), e.Body...)
	}
	return append(b, '}'), nil
}

// buffers are those of readers that have a message; idle connections hold none.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// maxKept bounds a buffer that is kept for the next message.
const maxKept = 64 << 10

// receive reads a message. give returns its memory, when nothing of it is used
// any more.
func receive(ws *websocket.Conn) (raw []byte, give func(), err error) {
	_, r, err := ws.NextReader()
	if err != nil {
		return nil, nil, err
	}
	b := buffers.Get().(*bytes.Buffer)
	b.Reset()
	give = func() {
		if b.Cap() <= maxKept {
			buffers.Put(b)
		}
	}
	if _, err := b.ReadFrom(r); err != nil {
		give()
		return nil, nil, err
	}
	return b.Bytes(), give, nil
}
