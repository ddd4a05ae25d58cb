package owners

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/tracker-server/store"
)

// Pairing a further computer, whose node is connected:
//
//  1. the owner's computer asks for a code (StartPairing) and shows it;
//  2. the person types it on the other computer: its node learns whose code it
//     is (Look), signs a binding and hands it in (Offer), which uses the code up;
//  3. the owner's computer sees which node came (Offered), the person confirms,
//     the owner's key signs as well, and Accept makes the binding valid.
//
// A code is 8 characters of 32, which is 40 bits. Few wrong ones may be tried:
// guessing one of a thousand open codes at the allowed rate takes some 30 years.
const (
	CodeFor    = 10 * time.Minute
	codeLen    = 8
	codeChars  = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ" // 32 without 0, 1, I, O
	maxOpen    = 5                                  // codes of one owner
	perSource  = 10                                 // wrong codes of one source in CodeFor
	allSources = 600                                // of all together
)

// StartPairing makes a code for an owner, whose signature the caller has
// checked. Errors: not_found without an account (bind a first node),
// rate_limited.
func (o *Owners) StartPairing(ctx context.Context, id store.AccountID) (code string, expires time.Time, err error) {
	var random [codeLen]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	for i, b := range random {
		random[i] = codeChars[b%32]
	}
	code = string(random[:])
	err = o.l.Update(ctx, func(tx store.LedgerTx, now time.Time) error {
		a, err := tx.Account(id)
		if err != nil {
			return err
		}
		if a.Kind != store.KindOwner {
			return protocol.Errorf(protocol.CodeForbidden, "%s is not an owner's account", string(id))
		}
		if err := tx.ForgetPairings(now); err != nil {
			return err
		}
		open, err := tx.Pairings(id)
		if err != nil {
			return err
		}
		if open >= maxOpen {
			// What was forgotten above has expired in any case.
			return protocol.Errorf(protocol.CodeRateLimited, "%d pairing codes are open; wait until one expires", open)
		}
		expires = now.Add(CodeFor)
		return tx.PutPairing(store.Pairing{Hash: codeHash(code), Owner: id, Expires: expires})
	})
	return code, expires, err
}

// codeHash reads a code as people type it: any case, with spaces or dashes.
func codeHash(code string) [sha256.Size]byte {
	if len(code) > 4*codeLen {
		code = ""
	}
	code = strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(code))
	return sha256.Sum256([]byte("neuron-pairing\x00" + code))
}

var errCode = protocol.Errorf(protocol.CodeNotFound, "the pairing code is wrong, used or older than %d minutes", int(CodeFor/time.Minute))

// find reads a code that is open. source is who tries: an address or a node.
func (o *Owners) find(tx store.LedgerView, now time.Time, source, code string) (store.Pairing, error) {
	if err := o.tries.allowed(source); err != nil {
		return store.Pairing{}, err
	}
	p, err := tx.Pairing(codeHash(code))
	e := protocol.AsError(err)
	if e != nil && e.Code != protocol.CodeNotFound {
		return p, err
	}
	if e != nil || now.After(p.Expires) || p.Node != "" {
		o.tries.wrong(source)
		return p, errCode
	}
	return p, nil
}

// Look tells a node whose code it is: the owner's public key, for the binding
// that the node signs. It does not use the code up. Errors: not_found,
// rate_limited.
func (o *Owners) Look(ctx context.Context, source, code string) (key ed25519.PublicKey, err error) {
	err = o.l.View(ctx, func(tx store.LedgerView) error {
		p, err := o.find(tx, o.now(), source, code)
		if err != nil {
			return err
		}
		a, err := tx.Account(p.Owner)
		key = a.Key
		return err
	})
	return key, err
}

// Offer hands in what the node signed, and uses the code up. The same again is a
// no-op, so that a node whose answer got lost may repeat it. Errors: not_found,
// rate_limited, forbidden for a wrong signature or another owner's binding.
func (o *Owners) Offer(ctx context.Context, source, code string, b *owner.Binding) error {
	if err := b.CheckNode(); err != nil {
		return err
	}
	b.OwnerSig = nil
	raw, err := json.Marshal(b)
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "encode a binding: %w", err)
	}
	return o.l.Update(ctx, func(tx store.LedgerTx, now time.Time) error {
		if p, err := tx.Pairing(codeHash(code)); err == nil && !now.After(p.Expires) && string(p.Offer) == string(raw) {
			return nil
		}
		p, err := o.find(tx, now, source, code)
		if err != nil {
			return err
		}
		if store.AccountID(b.Owner()) != p.Owner {
			return protocol.Errorf(protocol.CodeForbidden, "the binding is for another owner than the code's")
		}
		p.Node, p.Offer = b.Node(), raw
		return tx.PutPairing(p)
	})
}

// Offered is what came for a code: nil while nobody has used it. Errors:
// not_found, also for another owner's code and after its time.
func (o *Owners) Offered(ctx context.Context, a store.AccountID, code string) (b *owner.Binding, err error) {
	err = o.l.View(ctx, func(tx store.LedgerView) error {
		p, err := own(tx, o.now(), a, code)
		if err != nil || p.Node == "" {
			return err
		}
		b = new(owner.Binding)
		return json.Unmarshal(p.Offer, b)
	})
	return b, err
}

// own finds a code of an owner. One answer for all that is not his: nobody
// learns from it that a code is another one's.
func own(tx store.LedgerView, now time.Time, id store.AccountID, code string) (store.Pairing, error) {
	p, err := tx.Pairing(codeHash(code))
	if e := protocol.AsError(err); e != nil && e.Code == protocol.CodeNotFound || err == nil && (p.Owner != id || now.After(p.Expires)) {
		return store.Pairing{}, errCode
	}
	return p, err
}

// Accept makes the binding valid that the owner has signed too. It may come
// again. Errors: those of Bind; not_found; forbidden when it is not what the
// node offered.
func (o *Owners) Accept(ctx context.Context, code string, b *owner.Binding) (store.AccountID, error) {
	if err := b.Check(); err != nil {
		return "", err
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return "", protocol.Errorf(protocol.CodeInternal, "encode a binding: %w", err)
	}
	id := store.AccountID(b.Owner())
	err = o.l.Update(ctx, func(tx store.LedgerTx, now time.Time) error {
		p, err := own(tx, now, id, code)
		if err != nil {
			return err
		}
		bare := *b
		bare.OwnerSig = nil
		if offered, err := json.Marshal(bare); err != nil || string(offered) != string(p.Offer) {
			return protocol.Errorf(protocol.CodeForbidden, "this is not what the node has signed")
		}
		if _, err := bind(tx, now, b, raw, o.l.StartingCredit()); err != nil {
			return err
		}
		p.Done = true
		return tx.PutPairing(p)
	})
	return id, err
}

// tries counts wrong codes in windows of CodeFor.
type tries struct {
	now func() time.Time

	mu   sync.Mutex
	seen map[string]window // by source; "" for all together
}

type window struct {
	began time.Time
	wrong int
}

const maxSources = 10_000

func (t *tries) allowed(source string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if t.countLocked(now, "") >= allSources || t.countLocked(now, "s"+source) >= perSource {
		return protocol.Errorf(protocol.CodeRateLimited, "too many wrong pairing codes; try again in %d minutes", int(CodeFor/time.Minute))
	}
	return nil
}

func (t *tries) countLocked(now time.Time, key string) int {
	w := t.seen[key]
	if now.Sub(w.began) >= CodeFor {
		return 0
	}
	return w.wrong
}

func (t *tries) wrong(source string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	if len(t.seen) >= maxSources {
		for k, w := range t.seen {
			if now.Sub(w.began) >= CodeFor {
				delete(t.seen, k)
			}
		}
	}
	for _, key := range []string{"", "s" + source} {
		w := t.seen[key]
		if now.Sub(w.began) >= CodeFor {
			w = window{began: now}
		}
		w.wrong++
		t.seen[key] = w
	}
}
