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
		for k, f := range []func() error{tcp.trip, bare.trip, post.trip, up.trip} {
			if t[k], err = halfway(r.s.trips, f); err != nil {
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

// halfway is the median time of n calls.
func halfway(n int, f func() error) (time.Duration, error) {
	t := make([]time.Duration, n)
	for i := range t {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		t[i] = time.Since(began)
	}
	return report.Median(t), nil
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

// trip is also that of a connection with TLS.
func (t *tcpTrip) trip() error {
	if _, err := t.conn.Write(t.b); err != nil {
		return fmt.Errorf("raw connection: %w", err)
	}
	if _, err := io.ReadFull(t.conn, t.b[:tripReply]); err != nil {
		return fmt.Errorf("raw connection: %w", err)
	}
	return nil
}

// seamTrip is a session of which this process is driver and first hop.
type seamTrip struct {
	client  *seamclient.Client
	stream  seamclient.Stream
	tokens  seamclient.TokenStream
	reading sync.WaitGroup // reads tokens
	pos     uint32
	row     []byte
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
	t := &seamTrip{client: seamclient.New(me, opts...), row: make([]byte, tripBytes)}
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
	if t.stream, err = t.client.Stream(ctx, hop, l.Session); err != nil {
		return nil, err
	}
	t.reading.Go(func() {
		for range t.tokens.Frames() { // acknowledgements, which the tail sends here too
		}
	})
	return t, nil
}

func (t *seamTrip) trip() error {
	f := &protocol.Frame{Header: protocol.Header{
		Kind: protocol.KindDecode, DType: protocol.DTypeF32, Parts: protocol.PartHidden, Pos: t.pos, Rows: 1, Width: tripWidth, Length: tripBytes,
	}, Payload: t.row}
	t.pos++
	if err := t.stream.Send(context.Background(), f); err != nil {
		return err
	}
	f, ok := <-t.stream.Frames()
	switch {
	case !ok:
		return fmt.Errorf("stream ended: %w", t.stream.Err())
	case f.Kind == protocol.KindError:
		return f.Err()
	}
	return nil
}

func (t *seamTrip) close() {
	t.stream.Close()
	t.tokens.Close()
	t.reading.Wait()
	t.client.Close()
}
