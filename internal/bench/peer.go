package bench

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/seam/tlsio"
	"neuron/internal/identity"
	"neuron/internal/logging"
)

// The rows that cross the seam in the round trip: 16 KiB, and what raw TCP
// answers.
const (
	tripWidth = 4096
	tripBytes = 4 * tripWidth
	tripReply = 32
	tripModel = protocol.ModelID("be7c400000000000000000000000000000000000000000000000000000000be7")
	tripLlama = "none"
)

// greeting is the peer's first line of output.
type greeting struct {
	TCP, TLS, Seam string
	Node           protocol.NodeID
}

// Peer is the other process of the round trip: a socket that answers 16 KiB by
// 32 bytes, the same over TLS, and a seam server before a stage that acknowledges at once. The
// first line of in is the key of the leases, in hex; it serves until in ends.
func Peer(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	lines := bufio.NewReader(in)
	line, err := lines.ReadString('\n')
	if err != nil {
		return fmt.Errorf("key of the leases: %w", err)
	}
	key, err := hex.DecodeString(strings.TrimSpace(line))
	if err != nil || len(key) != ed25519.PublicKeySize {
		return errors.New("the key of the leases is malformed")
	}
	id, err := identity.New()
	if err != nil {
		return err
	}
	var lc net.ListenConfig
	var at [3]net.Listener
	for i := range at {
		if at[i], err = lc.Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
			return fmt.Errorf("listen: %w", err) // the process ends, and its sockets with it
		}
	}
	raw, secure, sl := at[0], tlsio.Listen(at[1], id.ServerTLS()), at[2]
	srv := seam.NewServer(seam.ServerOptions{
		Identity: id, Stage: func() seam.Stage { return echoStage{} }, TrackerKey: func() ed25519.PublicKey { return key }, Logger: logging.Discard(),
	})
	var work sync.WaitGroup
	work.Go(func() { answer(raw) })
	work.Go(func() { answer(secure) })
	work.Go(func() {
		if e := srv.Serve(sl); e != nil {
			err = e
		}
	})
	b, jerr := json.Marshal(greeting{TCP: raw.Addr().String(), TLS: secure.Addr().String(), Seam: sl.Addr().String(), Node: id.ID()})
	if jerr == nil {
		_, jerr = fmt.Fprintf(out, "%s\n", b)
	}
	if jerr == nil {
		_, jerr = io.Copy(io.Discard, lines)
	}
	raw.Close()
	secure.Close()
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer stop()
	cerr := srv.Close(end)
	work.Wait()
	return errors.Join(jerr, cerr, err)
}

// answer serves one connection after the other.
func answer(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		b := make([]byte, tripBytes)
		for {
			if _, err := io.ReadFull(c, b); err != nil {
				break
			}
			if _, err := c.Write(b[:tripReply]); err != nil {
				break
			}
		}
		c.Close()
	}
}

// echoStage is a tail that acknowledges rows without looking at them.
type echoStage struct{}

func (echoStage) Capability() protocol.Capability {
	return protocol.Capability{
		Model: tripModel, Name: "echo", Architecture: "none", Layers: 2, Loaded: protocol.Range{First: 1, Last: 2}, Tail: true,
		Exits: []int{2}, Width: tripWidth, DTypes: []string{protocol.DTypeF32.String()}, MaxContext: protocol.MaxContext,
		ChunkRows: 64, InFlightBytes: 4 * 64 * tripBytes, Build: protocol.Build{Protocol: protocol.Version, Llama: tripLlama},
	}
}

func (echoStage) Open(_ context.Context, o seam.StageOpen) (seam.StageSession, error) {
	return &echoSession{deliver: o.Deliver}, nil
}

type echoSession struct {
	mu      sync.Mutex // held while delivering; guards below
	deliver func(*protocol.Frame)
	closed  bool
}

func (s *echoSession) Send(_ context.Context, f *protocol.Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && f.Kind.Rows() {
		s.deliver(protocol.AckFrame(f.Header, protocol.Ack{Rows: f.Rows}))
	}
	return nil
}

func (s *echoSession) Cells() int { return protocol.MaxContext }
func (s *echoSession) Kept() int  { return 0 }

func (s *echoSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		s.deliver(nil)
	}
	return nil
}
