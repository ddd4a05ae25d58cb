package wayland

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"neuron/engine/host/source"
)

// after is the time without input at which the compositor tells us; shorter
// ones read as none. One minute is the least that a rule waits for, and each
// pause of the user's wakes us up twice.
const after = 20 * time.Second

// Idle is the time since the last input. While a program asks the compositor to
// stay awake (a film), the user counts as present.
type Idle struct {
	socket string

	mu   sync.Mutex
	conn *session // nil: not connected; guarded by mu
}

// Socket is the address of the user's compositor, "" without one.
func Socket() string {
	name := os.Getenv("WAYLAND_DISPLAY")
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	dir := os.Getenv("XDG_RUNTIME_DIR")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, name)
}

// NewIdle does not connect yet. The first Read makes a connection with a
// goroutine of its own, which ends with Close or with the compositor.
func NewIdle(socket string) *Idle { return &Idle{socket: socket} }

// Name implements source.Source.
func (i *Idle) Name() string { return "Wayland" }

// Read implements source.Source.
func (i *Idle) Read(ctx context.Context) (time.Duration, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.socket == "" {
		return 0, source.NotTold("this is no Wayland desktop")
	}
	if i.conn != nil {
		select {
		case <-i.conn.done:
			i.conn = nil
		default:
		}
	}
	if i.conn == nil {
		c, err := connect(ctx, i.socket)
		if err != nil {
			return 0, err
		}
		i.conn = c
	}
	return i.conn.idle(), nil
}

// Close implements source.Source; it waits for the goroutine.
func (i *Idle) Close() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.conn == nil {
		return nil
	}
	i.conn.net.Close()
	<-i.conn.done
	i.conn = nil
	return nil
}

// session is a connection with a notification that was asked for.
type session struct {
	net  net.Conn
	done chan struct{} // closed when nothing is read any more

	mu    sync.Mutex
	since time.Time // of the last input, zero while the user is active; guarded by mu
}

// connect asks for a notification and starts to read.
func connect(ctx context.Context, socket string) (*session, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("the compositor: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	err = introduce(conn)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	s := &session{net: conn, done: make(chan struct{})}
	go s.listen()
	return s, nil
}

// introduce binds the seat and the notifier, and asks.
func introduce(conn net.Conn) error {
	ask := (&message{object: idDisplay, code: displayGetRegistry}).uint(idRegistry).append(nil)
	ask = (&message{object: idDisplay, code: displaySync}).uint(idSync).append(ask)
	if _, err := conn.Write(ask); err != nil {
		return fmt.Errorf("the compositor: %w", err)
	}
	var seat, notifier uint32
	for {
		m, err := readMessage(conn)
		if err != nil {
			return fmt.Errorf("the compositor: %w", err)
		}
		if m.object == idSync && m.code == syncDone {
			break
		}
		if m.object == idDisplay && m.code == displayError {
			return fmt.Errorf("the compositor refuses")
		}
		if m.object != idRegistry || m.code != registryGlobal {
			continue
		}
		a := m.read()
		number, name := a.uint(), a.text()
		if !a.ok {
			return errMalformed
		}
		switch {
		case name == seatInterface && seat == 0:
			seat = number
		case name == notifierInterface:
			notifier = number
		}
	}
	if seat == 0 || notifier == 0 {
		return source.NotTold("the compositor does not tell idle times")
	}
	bind := func(b []byte, number uint32, name string, id uint32) []byte {
		return (&message{object: idRegistry, code: registryBind}).uint(number).text(name).uint(1).uint(id).append(b)
	}
	ask = bind(nil, seat, seatInterface, idSeat)
	ask = bind(ask, notifier, notifierInterface, idNotifier)
	ask = (&message{object: idNotifier, code: notifierGetNotice}).uint(idNotice).uint(uint32(after.Milliseconds())).uint(idSeat).append(ask)
	if _, err := conn.Write(ask); err != nil {
		return fmt.Errorf("the compositor: %w", err)
	}
	return nil
}

// listen reads until the connection ends.
func (s *session) listen() {
	defer close(s.done)
	defer s.net.Close()
	for {
		m, err := readMessage(s.net)
		if err != nil || m.object == idDisplay && m.code == displayError {
			return
		}
		if m.object != idNotice {
			continue
		}
		s.mu.Lock()
		switch m.code {
		case noticeIdled:
			s.since = time.Now().Add(-after)
		case noticeResumed:
			s.since = time.Time{}
		}
		s.mu.Unlock()
	}
}

func (s *session) idle() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() {
		return 0
	}
	return time.Since(s.since)
}
