package wayland

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// maxMessage bounds a message: its length has 16 bits.
const maxMessage = 1<<16 - 1

// message is a request or an event: numbers in the order of the machine, texts
// with a length and a zero, padded to four bytes.
type message struct {
	object uint32
	code   uint16
	args   []byte
}

var order = binary.NativeEndian

// Objects of a connection, and codes of what we use.
const (
	idDisplay  = 1
	idRegistry = 2
	idSync     = 3
	idSeat     = 4
	idNotifier = 5
	idNotice   = 6

	displaySync        = 0
	displayGetRegistry = 1
	registryBind       = 0
	notifierGetNotice  = 1

	displayError   = 0
	registryGlobal = 0
	syncDone       = 0
	noticeIdled    = 0
	noticeResumed  = 1

	seatInterface     = "wl_seat"
	notifierInterface = "ext_idle_notifier_v1"
)

func (m *message) uint(v uint32) *message {
	m.args = order.AppendUint32(m.args, v)
	return m
}

func (m *message) text(s string) *message {
	m.uint(uint32(len(s) + 1))
	m.args = append(m.args, s...)
	m.args = append(m.args, make([]byte, 4-len(s)%4)...)
	return m
}

func (m *message) append(b []byte) []byte {
	b = order.AppendUint32(b, m.object)
	b = order.AppendUint32(b, uint32(8+len(m.args))<<16|uint32(m.code))
	return append(b, m.args...)
}

var errMalformed = errors.New("a malformed message of the compositor")

func readMessage(r io.Reader) (message, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return message{}, err
	}
	m := message{object: order.Uint32(head[:])}
	word := order.Uint32(head[4:])
	m.code = uint16(word)
	n := int(word >> 16)
	if n < 8 || n%4 != 0 {
		return message{}, fmt.Errorf("%w: %d bytes long", errMalformed, n)
	}
	m.args = make([]byte, n-8)
	if _, err := io.ReadFull(r, m.args); err != nil {
		return message{}, err
	}
	return m, nil
}

// args reads arguments one after another; ok turns false at the first that is
// not there.
type args struct {
	rest []byte
	ok   bool
}

func (m *message) read() *args { return &args{rest: m.args, ok: true} }

func (a *args) uint() uint32 {
	if len(a.rest) < 4 {
		a.rest, a.ok = nil, false
		return 0
	}
	v := order.Uint32(a.rest)
	a.rest = a.rest[4:]
	return v
}

func (a *args) text() string {
	n := int(a.uint())
	if n < 1 || n > len(a.rest) || (n+3)&^3 > len(a.rest) || a.rest[n-1] != 0 {
		a.rest, a.ok = nil, false
		return ""
	}
	s := string(a.rest[:n-1])
	a.rest = a.rest[(n+3)&^3:]
	return s
}
