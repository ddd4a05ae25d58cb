package x11

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"

	"github.com/jezek/xgb"
	"github.com/jezek/xgb/xproto"

	"neuron/engine/host/source"
)

// Display is a connection to an X server, made when it is needed and made anew
// when it was lost.
type Display struct {
	address string
	turn    chan struct{} // holds a value while no question runs

	// Used by the running question alone.
	conn  *xgb.Conn
	atoms map[string]xproto.Atom
	codes map[string]byte // of extensions; 0: not there
}

// quiet keeps the library from writing on our standard error.
var quiet = sync.OnceFunc(func() {
	xgb.Logger = log.New(io.Discard, "", 0) //nolint:forbidigo // the library's logger has this type
})

// Open does not connect yet. The address is what DISPLAY holds; "" is no server.
func Open(address string) *Display {
	quiet()
	d := &Display{address: address, turn: make(chan struct{}, 1)}
	d.turn <- struct{}{}
	return d
}

var errBusy = errors.New("the X server has not answered the question before")

// ask runs a question. The library knows no time limits: when ctx ends first,
// the question stays behind until the server answers or goes away, and until
// then every further one fails at once. So at most one goroutine waits.
func (d *Display) ask(ctx context.Context, question func() error) error {
	if d.address == "" {
		return source.NotTold("there is no X server")
	}
	select {
	case <-d.turn:
	default:
		return errBusy
	}
	done := make(chan error, 1)
	go func() {
		err := d.answer(question)
		d.turn <- struct{}{} // before the caller hears of it: its next question may follow at once
		done <- err
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("the X server: %w", ctx.Err())
	}
}

func (d *Display) answer(question func() error) error {
	if d.conn == nil {
		conn, err := xgb.NewConnDisplay(d.address)
		if err != nil {
			return fmt.Errorf("the X server: %w", err)
		}
		d.conn, d.atoms, d.codes = conn, map[string]xproto.Atom{}, map[string]byte{}
	}
	// Events that nobody asked for would fill the library's queue.
	for {
		if event, err := d.conn.PollForEvent(); event == nil && err == nil {
			break
		}
	}
	err := question()
	if errors.Is(err, io.EOF) {
		d.conn = nil // the server went away
	}
	return err
}

// Close ends the connection. A question that the server has not answered yet is
// left to it.
func (d *Display) Close() error {
	select {
	case <-d.turn:
		if d.conn != nil {
			d.conn.Close()
			d.conn = nil
		}
		d.turn <- struct{}{}
	default:
	}
	return nil
}

func (d *Display) root() xproto.Window { return xproto.Setup(d.conn).DefaultScreen(d.conn).Root }

// extension looks for one and makes its requests usable. The library's own way
// would write to maps that connections share without a lock.
func (d *Display) extension(name string) (there bool, err error) {
	code, asked := d.codes[name]
	if !asked {
		r, err := xproto.QueryExtension(d.conn, uint16(len(name)), name).Reply()
		if err != nil {
			return false, err
		}
		if r.Present {
			code = r.MajorOpcode
			d.conn.ExtLock.Lock()
			d.conn.Extensions[name] = code
			d.conn.ExtLock.Unlock()
		}
		d.codes[name] = code
	}
	return code != 0, nil
}

func (d *Display) atom(name string) (xproto.Atom, error) {
	if a, ok := d.atoms[name]; ok {
		return a, nil
	}
	// Only if it exists: window managers make these, and nobody else has any.
	r, err := xproto.InternAtom(d.conn, true, uint16(len(name)), name).Reply()
	if err != nil {
		return 0, err
	}
	if r.Atom != xproto.AtomNone {
		d.atoms[name] = r.Atom
	}
	return r.Atom, nil
}
