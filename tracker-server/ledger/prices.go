package ledger

import (
	"context"
	"math/bits"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// Limits of the figures that come in: with them no amount overflows.
const (
	MaxGrant = store.Credit(1e15) // a thousand million credits
	maxPrice = store.Credit(1e9)  // per MiB
	maxBytes = 1 << 50
	maxRows  = 1 << 32
	maxTotal = store.Credit(1e15) // of one reservation
	million  = 1_000_000
	mebibyte = 1 << 20
	skewOf   = 2 * time.Hour // how far a signed time may be ahead
)

// DefaultPrices are what a new tracker publishes as version 1: about one credit
// for a position decoded by 1 GiB of weights, prefill at 15 %, a seeded GiB for
// about a hundredth of a credit, and no fee.
func DefaultPrices(from time.Time) store.Prices {
	return store.Prices{Version: 1, From: from, DecodeMiB: 1000, PrefillPPM: 150_000, SeedMiB: 10, FeePPM: 0}
}

// RowPrice is what one decoded position costs with a range of so many bytes:
// bytes x price / 2^20, rounded down. It reports false for figures beyond the
// limits.
func RowPrice(bytes int64, perMiB store.Credit) (store.Credit, bool) {
	if bytes < 0 || bytes > maxBytes || perMiB < 0 || perMiB > maxPrice {
		return 0, false
	}
	return scale(store.Credit(bytes), int64(perMiB), mebibyte)
}

// scale is a x num / den rounded down, with 128 bits in between; false when the
// result does not fit. a, num >= 0, den > 0.
func scale(a store.Credit, num, den int64) (store.Credit, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(num))
	if hi >= uint64(den) {
		return 0, false
	}
	q, _ := bits.Div64(hi, lo, uint64(den))
	return store.Credit(q), q>>63 == 0
}

// times is n rows at a price; false when it does not fit.
func times(n int64, price store.Credit) (store.Credit, bool) { return scale(price, n, 1) }

// fee is the house's part of a price: what is left when the owner's part is
// rounded down.
func fee(price store.Credit, ppm int64) store.Credit {
	share, _ := scale(price, million-ppm, million) // never more than price
	return price - share
}

func checkPrices(p store.Prices) error {
	bad := func(what string, v, limit int64) error {
		return refuse(protocol.CodeInvalidRequest, "%s is %d; 0 to %d are possible", what, v, limit)
	}
	switch {
	case p.Version < 1:
		return refuse(protocol.CodeInvalidRequest, "prices have versions from 1")
	case p.From.UnixMicro() <= 0:
		return refuse(protocol.CodeInvalidRequest, "prices need the time from which they hold")
	case p.DecodeMiB < 0 || p.DecodeMiB > maxPrice:
		return bad("decode_per_mib", int64(p.DecodeMiB), int64(maxPrice))
	case p.SeedMiB < 0 || p.SeedMiB > maxPrice:
		return bad("seed_per_mib", int64(p.SeedMiB), int64(maxPrice))
	case p.PrefillPPM < 0 || p.PrefillPPM > million:
		return bad("prefill_ppm", p.PrefillPPM, million)
	case p.FeePPM < 0 || p.FeePPM > million:
		return bad("fee_ppm", p.FeePPM, million)
	}
	return nil
}

// AddPrices publishes the next version. It holds from its time on, for sessions
// that are reserved after that; it cannot hold in the past. The same version
// with the same content is a no-op. Errors: invalid_request, conflict.
func (l *Ledger) AddPrices(ctx context.Context, p store.Prices) error {
	p.From = p.From.Truncate(time.Microsecond).UTC()
	return l.do(ctx, func(t *txn) error {
		if err := checkPrices(p); err != nil {
			return err
		}
		all, err := t.Prices()
		if err != nil {
			return err
		}
		for _, have := range all {
			if have.Version != p.Version {
				continue
			}
			if have != p {
				return refuse(protocol.CodeConflict, "version %d of the prices exists with other content", p.Version)
			}
			return nil
		}
		last := int64(len(all))
		if p.Version != last+1 {
			return refuse(protocol.CodeInvalidRequest, "version %d of the prices follows version %d", p.Version, last)
		}
		if last > 0 && (p.From.Before(t.now) || !p.From.After(all[last-1].From)) {
			return refuse(protocol.CodeInvalidRequest, "prices cannot change for the past, nor before those of version %d", last)
		}
		t.prices = nil
		return t.AddPrices(p)
	})
}

// Prices lists all versions, the oldest first.
func (l *Ledger) Prices(ctx context.Context) (out []store.Prices, err error) {
	err = l.store.ViewLedger(ctx, func(tx store.LedgerView) error {
		out, err = tx.Prices()
		return err
	})
	return out, err
}

// current is the price table that holds now.
func (t *txn) current() (p store.Prices, err error) {
	if t.prices == nil {
		if t.prices, err = t.Prices(); err != nil {
			return p, err
		}
	}
	for i := len(t.prices) - 1; i >= 0; i-- {
		if !t.prices[i].From.After(t.now) {
			return t.prices[i], nil
		}
	}
	return p, refuse(protocol.CodeUnavailable, "the operator has published no prices that hold now")
}
