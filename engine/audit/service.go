package audit

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/engine/seam"
)

// Sender brings kept frames to an auditor; *seamclient.Client is one.
type Sender interface {
	SendAudit(ctx context.Context, to protocol.Peer, audit auditmsg.AuditID, side auditmsg.AuditSide, frames []*protocol.Frame) error
}

// Options configure a Service. Node, TrackerKey, Sender and Tell are required.
type Options struct {
	Node       protocol.NodeID
	TrackerKey func() ed25519.PublicKey
	Sender     Sender
	// Tell sends a message to the tracker, or drops it when there is no
	// connection; it must not block.
	Tell func(kind protocol.MessageKind, body any)
	// Stage is the running shard, nil when none is ready. A nil function makes
	// a service that only keeps and sends: a gateway's.
	Stage func() seam.Stage
	// Busy reports a reason of this computer not to take extra work; may be nil.
	Busy   func() bool
	Engine string // version of this program
	Logger *slog.Logger
	Now    func() time.Time
	// Patience bounds the wait for the frames, 60 s if zero, and the time of the
	// re-execution after that.
	Patience time.Duration
}

// Service takes the tracker's orders. Run owns its goroutines.
type Service struct {
	o      Options
	log    *slog.Logger
	keeper *Keeper
	sends  chan *auditmsg.AuditSend
	runs   chan *job

	mu     sync.Mutex // guards below
	job    *job       // the open audit, nil mostly
	paying int        // sessions of others that are open or being opened
}

// maxSends bounds the orders that wait to be carried out.
const maxSends = 8

// sweepEvery is how often kept frames are looked at for their age.
const sweepEvery = 5 * time.Second

// New returns a service that does nothing before Run.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Patience <= 0 {
		o.Patience = time.Minute
	}
	return &Service{o: o, log: o.Logger, keeper: NewKeeper(o.Now), sends: make(chan *auditmsg.AuditSend, maxSends), runs: make(chan *job, 1)}
}

// Keeper is where frames pass by; it lives as long as the service.
func (s *Service) Keeper() *Keeper { return s.keeper }

// Run carries out orders until ctx ends, and returns when nothing of an audit
// is left.
func (s *Service) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	work.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case j := <-s.runs:
				s.run(ctx, j)
			}
		}
	})
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			s.keeper.Sweep()
		case o := <-s.sends:
			s.send(ctx, o)
		}
	}
}

// Handle takes one message of the tracker and reports whether it is of this
// package. It never blocks. An error is for the tracker: the message is not
// well formed.
func (s *Service) Handle(e *protocol.Envelope) (bool, error) {
	switch e.Kind {
	case auditmsg.MsgAuditKeep:
		k, err := protocol.Unpack[auditmsg.AuditKeep](e)
		if err != nil {
			return true, err
		}
		return true, s.keeper.Want(*k)
	case auditmsg.MsgAuditSend:
		o, err := protocol.Unpack[auditmsg.AuditSend](e)
		if err != nil {
			return true, err
		}
		return true, s.takeSend(o)
	case auditmsg.MsgAuditRun:
		o, err := protocol.Unpack[auditmsg.AuditRun](e)
		if err != nil {
			return true, err
		}
		return true, s.takeRun(o)
	}
	return false, nil
}

// verify checks a ticket that came with an order.
func (s *Service) verify(t *auditmsg.SignedAuditTicket) (*auditmsg.AuditTicket, error) {
	if t == nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "an audit order without a ticket")
	}
	return t.Verify(s.o.TrackerKey(), s.o.Now())
}

func (s *Service) failed(audit auditmsg.AuditID, err error) {
	e := protocol.AsError(err)
	s.log.Info("Audit failed", "audit", string(audit), "code", string(e.Code), "reason", e.Message)
	s.o.Tell(auditmsg.MsgAuditResult, auditmsg.AuditResult{Audit: audit, Error: e})
}

// takeSend checks an order to send. Without a good ticket nothing is taken out
// of the keeper, so a wrong order costs nothing.
func (s *Service) takeSend(o *auditmsg.AuditSend) error {
	t, err := s.checkSend(o)
	if err != nil {
		return err
	}
	select {
	case s.sends <- o:
	default:
		s.failed(t.Audit, protocol.Errorf(protocol.CodeRateLimited, "%d audits wait for this keeper", maxSends))
	}
	return nil
}

func (s *Service) checkSend(o *auditmsg.AuditSend) (*auditmsg.AuditTicket, error) {
	t, err := s.verify(o.Ticket)
	if err != nil {
		return nil, err
	}
	if o.Side != auditmsg.AuditInput && o.Side != auditmsg.AuditOutput {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "audit side %.32q", string(o.Side))
	}
	if t.Keeper(o.Side) != s.o.Node {
		return nil, protocol.Errorf(protocol.CodeForbidden, "the ticket names another keeper of the %s", string(o.Side))
	}
	return t, nil
}

// send carries out an order; the ticket may have ended while it waited.
func (s *Service) send(ctx context.Context, o *auditmsg.AuditSend) {
	t, err := s.checkSend(o)
	if err != nil {
		s.log.Info("Audit order dropped", "reason", err)
		return
	}
	frames, err := s.keeper.Take(t.Session, o.Side)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, s.o.Patience)
		defer cancel()
		err = s.o.Sender.SendAudit(ctx, t.Auditor, t.Audit, o.Side, atMost(frames, t.Rows))
	}
	if err != nil {
		s.failed(t.Audit, err)
	}
}

// atMost leaves out whole frames beyond n rows.
func atMost(frames []*protocol.Frame, n int) []*protocol.Frame {
	for i, f := range frames {
		if n -= int(f.Rows); n < 0 {
			return frames[:i]
		}
	}
	return frames
}
