package wayland

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

func TestMessages(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "a", "abc", "abcd", "wl_seat"} {
		raw := (&message{object: 3, code: 7}).uint(9).text(s).uint(1).append(nil)
		m, err := readMessage(bytes.NewReader(raw))
		if err != nil || m.object != 3 || m.code != 7 {
			t.Fatalf("%+v, %v", m, err)
		}
		a := m.read()
		if n, text, last := a.uint(), a.text(), a.uint(); n != 9 || text != s || last != 1 || !a.ok {
			t.Errorf("%d %q %d %v, want %q", n, text, last, a.ok, s)
		}
		if a.uint() != 0 || a.ok {
			t.Error("an argument after the last")
		}
	}
}

func TestMalformedMessages(t *testing.T) {
	t.Parallel()
	head := func(n uint32) []byte { return order.AppendUint32(order.AppendUint32(nil, 1), n<<16) }
	for what, raw := range map[string][]byte{"too short": head(4), "no whole words": append(head(10), 0, 0)} {
		if _, err := readMessage(bytes.NewReader(raw)); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := readMessage(bytes.NewReader(head(12))); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		t.Errorf("cut off: %v", err)
	}
	word := func(n uint32) []byte { return order.AppendUint32(nil, n) }
	for what, raw := range map[string][]byte{
		"longer than the message": word(1 << 31), "no zero at the end": append(word(4), "abcd"...), "of no length": word(0),
		"without its padding": append(word(2), 'a', 0), "of the longest length": word(1<<32 - 1),
	} {
		m := message{args: raw}
		if a := m.read(); a.text() != "" || a.ok {
			t.Errorf("a text %s was accepted", what)
		}
	}
}

// FuzzMessages: whatever a compositor sends, reading ends, with no more memory
// than a message may have.
func FuzzMessages(f *testing.F) {
	f.Add((&message{object: idRegistry, code: registryGlobal}).uint(1).text(seatInterface).uint(7).append(nil))
	f.Add((&message{object: idSync, code: syncDone}).uint(3).append(nil))
	f.Add((&message{object: idNotice, code: noticeIdled}).append(nil))
	f.Add([]byte{1, 0, 0, 0, 0, 0, 255, 255})
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := bytes.NewReader(raw)
		for {
			m, err := readMessage(r)
			if err != nil {
				return
			}
			if len(m.args) > maxMessage {
				t.Fatalf("%d bytes", len(m.args))
			}
			a := m.read()
			number, text := a.uint(), a.text()
			if !a.ok {
				continue
			}
			back := (&message{}).uint(number).text(text)
			if len(back.args) > len(m.args) || text != "" && !bytes.Contains(m.args, []byte(text)) {
				t.Fatalf("%q is not what %q holds", text, m.args)
			}
		}
	})
}
