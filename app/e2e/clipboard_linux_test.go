package e2e

import (
	"time"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"
)

// clipboard is the text that a program offers, "" while none does: what a user
// would paste elsewhere.
func (s *screen) clipboard() string {
	s.t.Helper()
	conn, err := xgb.NewConnDisplay(s.display) // its events are no others'
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	atom := func(name string) xproto.Atom {
		r, err := xproto.InternAtom(conn, false, uint16(len(name)), name).Reply()
		if err != nil {
			s.t.Fatal(err)
		}
		return r.Atom
	}
	w, err := xproto.NewWindowId(conn)
	if err != nil {
		s.t.Fatal(err)
	}
	setup := xproto.Setup(conn).DefaultScreen(conn)
	if err := xproto.CreateWindowChecked(conn, 0, w, setup.Root, 0, 0, 1, 1, 0, xproto.WindowClassInputOnly, 0, 0, nil).Check(); err != nil {
		s.t.Fatal(err)
	}
	selection, utf8, here := atom("CLIPBOARD"), atom("UTF8_STRING"), atom("NEURON_TEST")
	if err := xproto.ConvertSelectionChecked(conn, w, selection, utf8, here, xproto.TimeCurrentTime).Check(); err != nil {
		s.t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 200 { // a program that is busy answers at the next try
		e, xerr := conn.PollForEvent()
		if xerr != nil {
			s.t.Fatal(xerr)
		}
		if n, ok := e.(xproto.SelectionNotifyEvent); ok {
			if n.Property == xproto.AtomNone {
				return ""
			}
			r, err := xproto.GetProperty(conn, true, w, here, utf8, 0, 1<<18).Reply()
			if err != nil {
				s.t.Fatal(err)
			}
			return string(r.Value)
		}
		select {
		case <-s.t.Context().Done():
			return ""
		case <-tick.C:
		}
	}
	return ""
}
