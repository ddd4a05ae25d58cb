package desktop

import (
	"context"
	"sync"
	"time"

	"neuron/engine/accounts"
	"neuron/engine/protocol"
)

// pay asks what was earned today, for those who look: at most once a minute, and
// only while somebody listens to events.
type pay struct {
	e *Engine

	mu sync.Mutex
	// Protected by mu.
	day    string // in UTC, as the tracker's books
	micros int64
}

const (
	payEvery = time.Minute
	payLook  = 5 * time.Second
)

func newPay(e *Engine) *pay { return &pay{e: e} }

// today is what is known for this day.
func (p *pay) today() (micros int64, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.day != p.e.o.Now().UTC().Format(time.DateOnly) {
		return 0, false
	}
	return p.micros, true
}

func (p *pay) run(ctx context.Context) {
	tick := time.NewTicker(payLook)
	defer tick.Stop()
	var asked time.Time
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := p.e.o.Now()
		since := now.Sub(asked)
		if node, _ := p.e.parts(); node == nil || p.e.api.Listeners() == 0 || since >= 0 && since < payEvery {
			continue
		}
		asked = now
		if err := p.ask(ctx, now); err != nil && ctx.Err() == nil {
			p.e.log.Debug("What was earned today is not known", "error", err)
		}
	}
}

func (p *pay) ask(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	day := now.UTC().Format(time.DateOnly)
	got, err := (*owners)(p.e).Earnings(ctx, accounts.Query{Since: day})
	if err != nil {
		return err
	}
	if got.NextUntil != "" {
		return protocol.Errorf(protocol.CodeUnavailable, "the tracker gave a part of the day")
	}
	sum := int64(0)
	for _, x := range got.Earnings {
		if x.Day == day {
			sum += x.Amount.Micros
		}
	}
	p.mu.Lock()
	p.day, p.micros = day, sum
	p.mu.Unlock()
	p.e.changed()
	return nil
}
