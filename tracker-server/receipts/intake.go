// Package receipts takes receipts in: it has them judged (package audit), posts
// the work that they prove (package ledger), stores them and the proofs of
// faults, and acts on proven faults. docs/protocol/receipts.md is the published
// form of what it does.
//
// The server imports it, and the operator's area for what follows from faults.
// It knows no websocket and no route: what keeps a node out of public routes is
// a function that the server gives.
package receipts

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/store"
)

// Store is what the intake needs of a store.
type Store interface {
	store.Receipts
	// Session finds a session with its lease. Error: not_found.
	Session(ctx context.Context, id protocol.SessionID) (store.Session, error)
}

// Hooks are told what happens, for metrics. They are called while others wait,
// and must not block. Nil ones are left out.
type Hooks struct {
	// Judged gets the answer to one receipt; code is "" without an error.
	Judged func(status protocol.ReceiptStatus, code protocol.Code)
	// Proven is called once for every new proof.
	Proven func(kind audit.FaultKind)
	// Posted gets what became of the work of one receipt, and the owner's part in
	// micro-credits. Work that nobody reserved credit for is unpaid.
	Posted func(status ledger.Status, amount store.Credit)
}

// Config is what an Intake is made of.
type Config struct {
	Store Store
	// Lease finds a stored lease that the tracker has in memory, as it is signed
	// and as it is; nil stands for others, which Store has. Both are never
	// changed. It must not block. Default: none is found.
	Lease  func(protocol.SessionID) (*protocol.SignedLease, *protocol.Lease)
	Ledger *ledger.Ledger
	Now    func() time.Time // default: time.Now
	Logger *slog.Logger     // default: discard
	// Audit bounds the auditor; default: audit.DefaultConfig.
	Audit audit.Config
	// Bar keeps a node out of public routes for the reason that why tells; ""
	// lets it in again. Default: nothing happens.
	Bar   func(node protocol.NodeID, why string)
	Hooks Hooks
	// Pace is the time between two groups of receipts, unless many wait: so much
	// later a node is answered, and so many more receipts one write to the disk
	// serves. Default: none.
	Pace time.Duration
}

func (c *Config) fill() {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Audit == (audit.Config{}) {
		c.Audit = audit.DefaultConfig()
	}
	if c.Lease == nil {
		c.Lease = func(protocol.SessionID) (*protocol.SignedLease, *protocol.Lease) { return nil, nil }
	}
	if c.Bar == nil {
		c.Bar = func(protocol.NodeID, string) {}
	}
	if c.Hooks.Judged == nil {
		c.Hooks.Judged = func(protocol.ReceiptStatus, protocol.Code) {}
	}
	if c.Hooks.Proven == nil {
		c.Hooks.Proven = func(audit.FaultKind) {}
	}
	if c.Hooks.Posted == nil {
		c.Hooks.Posted = func(ledger.Status, store.Credit) {}
	}
}

// Intake takes receipts. It is safe for concurrent use and has no goroutines:
// whoever finds nobody judging judges for all that wait, so that one write to
// the disk serves many nodes. The next group begins when the one before it is
// on the disk; no answer rests on what could still be lost.
//
// Of a group, the work is posted and the receipts and proofs are stored in one
// transaction, or some receipts in one each, then the nodes are answered. Whoever got no answer sends again:
// posting is idempotent, so a kill at any moment loses nothing and pays nothing
// twice.
type Intake struct {
	cfg     Config
	faults  *Faults
	limits  limits
	checker audit.Checker
	// checking is held by who verifies signatures; so many at a time.
	checking chan struct{}

	mu      sync.Mutex
	waiting []*batch

	// pen is held by whoever judges; capacity 1. The fields below are the
	// holder's.
	pen     chan struct{}
	source  *source
	auditor *audit.Auditor
	begun   time.Time // when the last group was
}

// Open makes an intake and puts the proven faults that stand into force again.
func Open(ctx context.Context, cfg Config) (*Intake, error) {
	cfg.fill()
	f, err := openFaults(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	src := &source{ctx: ctx, store: cfg.Store, lease: cfg.Lease}
	return &Intake{
		cfg: cfg, faults: f, limits: limits{now: cfg.Now}, checking: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), pen: make(chan struct{}, 1),
		source: src, auditor: audit.New(cfg.Audit, src),
	}, nil
}

// Faults are the proven ones.
func (in *Intake) Faults() *Faults { return in.faults }

// settleTime is what settlement needs of a receipt after the time in which it
// is taken: late payment (6 h), an hour unsettled, and room for a clock that was
// set.
const settleTime = 24 * time.Hour

// Prune forgets the receipts of sessions whose time for receipts and for
// settlement is over. Proofs stay.
func (in *Intake) Prune(ctx context.Context) (sessions int, err error) {
	return in.cfg.Store.PruneReceipts(ctx, in.cfg.Now().Add(-in.cfg.Audit.Keep-settleTime))
}

// Rest lets go of what only receipts need that come soon. Judging does it, too:
// this is for times without receipts. It never waits.
func (in *Intake) Rest() {
	select {
	case in.pen <- struct{}{}:
		in.auditor.Rest(in.cfg.Now())
		<-in.pen
	default: // somebody judges
	}
}

// batch is what one node sent in one message.
type batch struct {
	from    protocol.NodeID
	checked []*audit.Checked // nil where the receipt is broken by itself
	answers []protocol.ReceiptVerdict
	done    chan struct{} // closed when answers are final
}

// maxGroup bounds the receipts of a group, unless one batch has more: nodes wait
// for it.
const maxGroup = 256

// Submit judges what node from has sent, stores it and pays for it. The answers
// stand in the order of raws, see audit.Auditor.Submit for their codes. An
// answer other than retry holds after the end of the process at any moment.
// Retry has the code unavailable when database or ledger fail, or rate_limited
// for a node that sent too much that was refused or known. Work that the ledger
// refuses for good is refused with the ledger's code. ctx only bounds the time
// until the receipts are looked at.
func (in *Intake) Submit(ctx context.Context, from protocol.NodeID, raws [][]byte) []protocol.ReceiptVerdict {
	b := &batch{from: from, checked: make([]*audit.Checked, len(raws)), answers: make([]protocol.ReceiptVerdict, len(raws)), done: make(chan struct{})}
	switch {
	case ctx.Err() != nil:
		b.retry(protocol.Errorf(protocol.CodeUnavailable, "the tracker is stopping"))
	case !in.limits.allow(from):
		b.retry(protocol.Errorf(protocol.CodeRateLimited, "too many receipts of this node were refused, or were known before"))
	case in.check(b, raws):
		in.wait(context.WithoutCancel(ctx), b)
	}
	useless := 0
	for _, a := range b.answers {
		code := protocol.Code("")
		if a.Error != nil {
			code = a.Error.Code
		}
		in.cfg.Hooks.Judged(a.Status, code)
		if a.Status == protocol.ReceiptRefused || a.Status == protocol.ReceiptRepeat {
			useless++
		}
	}
	in.limits.charge(from, useless)
	return b.answers
}

// check verifies the signatures, which is most of what a receipt costs, on half
// of the processors: others wait for routes. It reports whether there is
// anything to judge.
func (in *Intake) check(b *batch, raws [][]byte) (some bool) {
	in.checking <- struct{}{}
	defer func() { <-in.checking }()
	var errs []error
	b.checked, errs = in.checker.Check(raws)
	for i, err := range errs {
		if err != nil {
			b.answers[i] = refuse(err)
		} else {
			some = true
		}
	}
	return some
}

func refuse(err error) protocol.ReceiptVerdict {
	return protocol.ReceiptVerdict{Status: protocol.ReceiptRefused, Error: protocol.AsError(err)}
}

// retry answers everything that was not refused by itself.
func (b *batch) retry(err *protocol.Error) {
	for i := range b.answers {
		if b.answers[i].Status == "" || b.checked[i] != nil {
			b.answers[i] = protocol.ReceiptVerdict{Status: protocol.ReceiptRetry, Error: err}
		}
	}
}

// wait has a batch judged, by this goroutine or another one.
func (in *Intake) wait(ctx context.Context, b *batch) {
	in.mu.Lock()
	in.waiting = append(in.waiting, b)
	in.mu.Unlock()
	for {
		select {
		case <-b.done:
			return
		case in.pen <- struct{}{}:
			in.lead(ctx)
			<-in.pen
		}
	}
}

// pace waits until the next group is due. It reports whether there is one.
func (in *Intake) pace() bool {
	in.mu.Lock()
	sum := 0
	for _, b := range in.waiting {
		sum += len(b.checked)
	}
	in.mu.Unlock()
	if sum == 0 {
		return false // another goroutine's group had all of them
	}
	if d := in.cfg.Pace - time.Since(in.begun); d > 0 && sum < maxGroup {
		time.Sleep(d)
	}
	in.begun = time.Now()
	return true
}

// lead judges one group of batches.
func (in *Intake) lead(ctx context.Context) {
	if !in.pace() {
		return
	}
	in.mu.Lock()
	n, sum := 0, 0
	for n < len(in.waiting) && (n == 0 || sum+len(in.waiting[n].checked) <= maxGroup) {
		sum += len(in.waiting[n].checked)
		n++
	}
	group := in.waiting[:n:n]
	if in.waiting = in.waiting[n:]; len(in.waiting) == 0 {
		in.waiting = nil
	}
	in.mu.Unlock()
	in.source.ctx = ctx
	err := in.judge(ctx, group)
	if err != nil && len(group) > 1 && ofOne(err) {
		// One of them may be at fault: each is tried by itself.
		for _, b := range group {
			if one := in.judge(ctx, []*batch{b}); one != nil {
				err = one
			}
		}
	}
	if err != nil {
		in.cfg.Logger.Error("take receipts", "batches", len(group), "err", err)
	}
	for _, b := range group {
		close(b.done)
	}
}

// ofOne reports whether an error may be about one batch. A database that is
// locked, full or gone would fail each of them after the same wait.
func ofOne(err error) bool {
	switch protocol.AsError(err).Code {
	case protocol.CodeUnavailable, protocol.CodeDiskFull, protocol.CodeDataFolder:
		return false
	}
	return true
}

// judge does what the comment of Intake says. After an error nothing is known
// of what it was about, and all is to be sent again.
func (in *Intake) judge(ctx context.Context, group []*batch) error {
	g := in.ask(group)
	err := in.keep(ctx, g)
	if err == nil {
		in.auditor.Kept(in.cfg.Now())
		return nil
	}
	for id := range g.sessions {
		in.auditor.Forget(id)
	}
	for _, b := range group {
		b.retry(protocol.Errorf(protocol.CodeUnavailable, "the tracker cannot keep receipts now"))
	}
	return err
}

// judged is what the auditor said of a group.
type judged struct {
	sessions map[protocol.SessionID]bool
	pieces   []*piece
	proofs   []*audit.Proof
}

// room is the piece for the next receipt.
func (g *judged) room() *piece {
	if len(g.pieces) == 0 || g.pieces[len(g.pieces)-1].size() >= ledger.PieceSize {
		g.pieces = append(g.pieces, new(piece))
	}
	return g.pieces[len(g.pieces)-1]
}

// ask shows a group to the auditor.
func (in *Intake) ask(group []*batch) *judged {
	g := &judged{sessions: make(map[protocol.SessionID]bool)}
	now := in.cfg.Now()
	failed := make(map[protocol.SessionID]protocol.ReceiptVerdict) // cannot be read now
	for _, b := range group {
		for i, c := range b.checked {
			if c == nil {
				continue
			}
			r := c.Receipt()
			if v, ok := failed[r.Session]; ok {
				b.answers[i] = v
				continue
			}
			g.sessions[r.Session] = true
			v := in.auditor.Submit(now, b.from, c)
			b.answers[i] = v.ReceiptVerdict
			if v.Status == protocol.ReceiptRetry {
				failed[r.Session] = v.ReceiptVerdict
				in.cfg.Logger.Error("read the receipts of a session", "session", r.Session, "err", errors.Unwrap(v.Error))
			}
			p := g.room()
			if v.Keep != nil {
				p.keep = append(p.keep, store.Receipt{Session: r.Session, Hop: r.Hop, Seq: r.Span.Seq, Both: c.Both(), Expires: v.Expires, Raw: v.Keep})
			}
			for _, f := range v.Facts {
				// What two neighbours say alone waits: it comes again when it is backed.
				if !f.Backed {
					continue
				}
				w := work{fact: f}
				if f.Receipt == c.ID() {
					w.answer = &b.answers[i]
				}
				p.works = append(p.works, w)
			}
			g.proofs = append(g.proofs, v.Proofs...)
		}
	}
	return g
}

// keep pays for what a group brought and stores it, and acts on the faults in it.
func (in *Intake) keep(ctx context.Context, g *judged) error {
	proofs, err := in.faults.admit(ctx, g.proofs)
	if err != nil {
		return err
	}
	g.pieces = slices.DeleteFunc(g.pieces, func(p *piece) bool { return p.size() == 0 && len(proofs) == 0 })
	if err := in.pay(ctx, g.pieces, proofs); err != nil {
		return err
	}
	return in.faults.act(ctx, proofs)
}
