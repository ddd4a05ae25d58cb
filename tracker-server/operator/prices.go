package operator

import (
	"context"
	"fmt"
	"time"

	"neuron/tracker-server/store"
)

// PricePage is all versions of the price table, the newest first.
type PricePage struct {
	Prices []store.Prices `json:"prices"`
	Now    int64          `json:"now"` // the version that holds now, 0 for none
}

// Next proposes the following version.
func (p *PricePage) Next() store.Prices {
	if len(p.Prices) == 0 {
		return store.Prices{Version: 1}
	}
	n := p.Prices[0]
	n.Version++
	return n
}

// Prices lists the price tables.
func (a *Area) Prices(ctx context.Context) (*PricePage, error) {
	all, err := a.cfg.Ledger.Prices(ctx)
	p := &PricePage{Prices: []store.Prices{}}
	for _, v := range all {
		p.Prices = append([]store.Prices{v}, p.Prices...)
		if !v.From.After(a.cfg.Now()) {
			p.Now = v.Version
		}
	}
	return p, err
}

// PriceInput is the next version of the prices.
// Without From it holds a minute from now; figures that are not given stay as
// they are in the newest version.
type PriceInput struct {
	Version    int64     `json:"version"`
	From       time.Time `json:"from"`
	DecodeMiB  *Amount   `json:"decode_per_mib"`
	PrefillPPM *int64    `json:"prefill_ppm"`
	SeedMiB    *Amount   `json:"seed_per_mib"`
	FeePPM     *int64    `json:"fee_ppm"`
	Reason     string    `json:"reason"`
}

// AddPrices publishes the next price table.
func (a *Area) AddPrices(ctx context.Context, by string, in PriceInput) (any, string, error) {
	have, err := a.Prices(ctx)
	if err != nil {
		return nil, "", err
	}
	p := have.Next()
	if p.From = in.From.UTC(); in.From.IsZero() {
		p.From = a.cfg.Now().UTC().Add(time.Minute).Truncate(time.Second)
	}
	if in.Version != 0 {
		p.Version = in.Version // a repetition, or a form that somebody was faster than
	}
	for _, f := range []struct{ to, from *int64 }{
		{(*int64)(&p.DecodeMiB), (*int64)(in.DecodeMiB)}, {&p.PrefillPPM, in.PrefillPPM}, {(*int64)(&p.SeedMiB), (*int64)(in.SeedMiB)}, {&p.FeePPM, in.FeePPM},
	} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	d := deed{by: by, action: "prices add", reason: in.Reason, detail: fmt.Sprintf("version %d from %s: decode %s, prefill %d ppm, seed %s, fee %d ppm",
		p.Version, p.From.Format(time.RFC3339), p.DecodeMiB, p.PrefillPPM, p.SeedMiB, p.FeePPM)}
	err = a.do(ctx, d, func() error { return a.cfg.Ledger.AddPrices(ctx, p) })
	return p, fmt.Sprintf("Version %d of the prices holds from %s on.", p.Version, p.From.Format("2006-01-02 15:04:05 UTC")), err
}
