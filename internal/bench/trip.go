package bench

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamclient"
	"neuron/engine/seam/tlsio"
	"neuron/internal/bench/report"
	"neuron/internal/identity"
)

// roundTrips compares 16 KiB down and an acknowledgement back over a seam with
// the same over a raw TCP connection, both to another process. TLS by itself, with
// nothing read or written but these bytes, is what no seam can be faster than.
func (r *run) roundTrips(ctx context.Context) (err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make key: %w", err)
	}
	cmd := exec.Command(r.o.Peer[0], r.o.Peer[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	defer func() { err = errors.Join(err, in.Close(), cmd.Wait()) }()
	if _, err := fmt.Fprintln(in, hex.EncodeToString(pub)); err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("peer: %w", err)
	}
	var g greeting
	if err := json.Unmarshal(line, &g); err != nil {
		return fmt.Errorf("peer: %w", err)
	}

	tcp, err := dialTCP(ctx, g.TCP)
	if err != nil {
		return err
	}
	defer tcp.conn.Close()
	bare, err := dialTLS(ctx, g)
	if err != nil {
		return err
	}
	defer bare.conn.Close()
	post, err := dialSeam(ctx, g, key)
	if err != nil {
		return err
	}
	defer post.close()
	up, err := dialSeam(ctx, g, key, seamclient.WithUpgrade())
	if err != nil {
		return err
	}
	defer up.close()

	var viaTLS, viaPost, viaUp report.Pairs
	for i := range r.s.tripRuns + 1 {
		var t [4]time.Duration
		of := [...]func(n int) (time.Duration, error){tcp.trips, bare.trips, post.trips, up.trips}
		for k := range of {
			k = (k + i) % len(of) // none is always the first
			if t[k], err = of[k](r.s.trips); err != nil {
				return err
			}
		}
		if i > 0 {
			viaTLS.Add(t[0], t[1])
			viaPost.Add(t[0], t[2])
			viaUp.Add(t[0], t[3])
		}
	}
	note := func(p *report.Pairs) string {
		return fmt.Sprintf("p50 %d us, raw TCP %d us", report.Median(p.Other).Microseconds(), report.Median(p.Base).Microseconds())
	}
	r.rep.Add(report.Row{Name: "the same bytes over TLS alone, over raw TCP", Figure: fmt.Sprintf("%.2f", viaTLS.Ratio()), Note: note(&viaTLS)})
	r.rep.AtMost("seam round trip, duplex POST, over raw TCP", viaPost.Ratio(), 3, "", note(&viaPost))
	r.rep.AtMost("seam round trip, upgraded stream, over raw TCP", viaUp.Ratio(), 2, "", note(&viaUp))
	return nil
}

type tcpTrip struct {
	conn net.Conn
	b    []byte
}

func dialTCP(ctx context.Context, addr string) (*tcpTrip, error) {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("raw connection: %w", err)
	}
	return &tcpTrip{c, make([]byte, tripBytes)}, nil
}

func dialTLS(ctx context.Context, g greeting) (*tcpTrip, error) {
	me, err := identity.New()
	if err != nil {
		return nil, err
	}
	c, err := tlsio.Dial(ctx, "tcp", g.TLS, me.ClientTLS(g.Node), 5*time.Second)
	if err != nil {
		return nil, fmt.Errorf("bare TLS connection: %w", err)
	}
	return &tcpTrip{c, make([]byte, tripBytes)}, nil
}

// trips is the median time of n round trips, also over TLS.
func (t *tcpTrip) trips(n int) (time.Duration, error) {
	times := make([]time.Duration, n)
	for i := range times {
		began := time.Now()
		if _, err := t.conn.Write(t.b); err != nil {
			return 0, fmt.Errorf("raw connection: %w", err)
		}
		if _, err := io.ReadFull(t.conn, t.b[:tripReply]); err != nil {
			return 0, fmt.Errorf("raw connection: %w", err)
		}
		times[i] = time.Since(began)
	}
	return report.Median(times), nil
}

// seamTrip is a session of which this process is driver and first hop.
type seamTrip struct {
	client  *seamclient.Client
	down    seamclient.Downstream
	tokens  seamclient.TokenStream
	reading sync.WaitGroup // reads tokens
	row     []byte
	pos     uint32

	// Of the trips under way. The goroutine that reads the acknowledgement of one
	// sends the next, as with the other connections.
	began time.Time
	times []time.Duration
	left  int
	done  chan error
}

func dialSeam(ctx context.Context, g greeting, key ed25519.PrivateKey, opts ...seamclient.Option) (_ *seamTrip, err error) {
	me, err := identity.New()
	if err != nil {
		return nil, err
	}
	hop := protocol.Hop{Node: g.Node, Addr: g.Seam, Use: protocol.Range{First: 1, Last: 2}}
	l := &protocol.Lease{
		Version: protocol.Version, Session: protocol.NewSessionID(), Model: tripModel, Layers: 2, Driver: me.ID(),
		Hops:    []protocol.Hop{{Node: me.ID(), Addr: "127.0.0.1:1", Use: protocol.Range{Last: 1}}, hop},
		Context: protocol.MaxContext, DType: protocol.DTypeF32, Policy: protocol.PolicyPublic,
		EngineBuild: protocol.Build{Protocol: protocol.Version, Llama: tripLlama},
		Issued:      time.Now(), Expires: time.Now().Add(time.Hour),
	}
	signed, err := protocol.SignLease(l, key)
	if err != nil {
		return nil, err
	}
	t := &seamTrip{client: seamclient.New(me, opts...), row: make([]byte, tripBytes), done: make(chan error, 1)}
	defer func() {
		if err != nil {
			t.client.Close()
		}
	}()
	if _, err := t.client.Open(ctx, hop, &protocol.OpenRequest{Lease: signed, Hop: 1, Sampler: &protocol.Sampler{}}); err != nil {
		return nil, err
	}
	if t.tokens, err = t.client.Tokens(ctx, hop, l.Session); err != nil {
		return nil, err
	}
	down, derr := t.client.Downstream(ctx, ctx, hop, 1, l.Session, 5*time.Second, t.take)
	if derr != nil {
		return nil, derr
	}
	t.down = down
	t.reading.Go(func() {
		for range t.tokens.Frames() { // signs of life: the rows ask for no tokens
		}
	})
	return t, nil
}

// trips is the median time of n round trips.
func (t *seamTrip) trips(n int) (time.Duration, error) {
	t.times, t.left = make([]time.Duration, 0, n), n
	if err := t.send(); err != nil {
		return 0, err
	}
	select {
	case err := <-t.done:
		return report.Median(t.times), err
	case <-t.down.Done():
		return 0, fmt.Errorf("stream ended: %w", t.down.Err())
	}
}

func (t *seamTrip) send() error {
	f := &protocol.Frame{Header: protocol.Header{
		Kind: protocol.KindDecode, DType: protocol.DTypeF32, Parts: protocol.PartHidden, Pos: t.pos, Rows: 1, Width: tripWidth, Length: tripBytes,
	}, Payload: t.row}
	t.pos++
	t.began = time.Now()
	return t.down.Send(context.Background(), f)
}

// take is called with what comes back.
func (t *seamTrip) take(f *protocol.Frame) {
	var err error
	if f.Kind == protocol.KindError {
		err = f.Err()
	} else {
		t.times = append(t.times, time.Since(t.began))
		if t.left--; t.left > 0 {
			err = t.send()
		}
	}
	if err != nil || t.left == 0 {
		t.done <- err
	}
}

func (t *seamTrip) close() {
	t.down.CloseWith(protocol.ControlFrame(protocol.KindClose, 0, 0, 0))
	t.tokens.Close()
	t.reading.Wait()
	t.client.Close()
}
