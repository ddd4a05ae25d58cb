package load

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha512"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"filippo.io/edwards25519"

	"neuron/engine/protocol"
)

// A signature of Ed25519 is R = [r]B and S = r + H(R, A, message)·a (RFC 8032,
// section 5.1.6). Nearly all that one costs is R, which neither message nor key
// goes into when r is a random number, as it may be. So the crowd makes all R
// before the load: what it signs during the load is as good as any other, for a
// thirtieth of the time. Real nodes sign on computers of their own.

// nonce is r and R of one signature.
type nonce struct{ r, point [32]byte }

// nonces are used once each.
type nonces struct {
	list []nonce
	next atomic.Int64
}

// prepare makes n of them, on all processors.
func (p *nonces) prepare(n int) error {
	p.list = make([]nonce, n)
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = p.list[i].make()
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return fmt.Errorf("prepare signatures: %w", err)
		}
	}
	return nil
}

func (n *nonce) make() error {
	var wide [64]byte
	if _, err := rand.Read(wide[:]); err != nil {
		return err
	}
	r, err := new(edwards25519.Scalar).SetUniformBytes(wide[:])
	if err != nil {
		return err
	}
	copy(n.r[:], r.Bytes())
	copy(n.point[:], new(edwards25519.Point).ScalarBaseMult(r).Bytes())
	return nil
}

// take is the next one; more than were prepared are made as they are needed.
func (p *nonces) take() (*nonce, error) {
	if i := int(p.next.Add(1)) - 1; i < len(p.list) {
		return &p.list[i], nil
	}
	n := new(nonce)
	return n, n.make()
}

// signer is the key of one of the crowd.
type signer struct {
	public ed25519.PublicKey
	secret *edwards25519.Scalar
}

func newSigner(key ed25519.PrivateKey) (*signer, error) {
	h := sha512.Sum512(key.Seed())
	a, err := new(edwards25519.Scalar).SetBytesWithClamping(h[:32])
	if err != nil {
		return nil, err
	}
	return &signer{public: key.Public().(ed25519.PublicKey), secret: a}, nil
}

func (s *signer) sign(n *nonce, domain string, body []byte) ([]byte, error) {
	h := sha512.New()
	h.Write(n.point[:])
	h.Write(s.public)
	h.Write([]byte(domain))
	h.Write(body)
	var sum [sha512.Size]byte
	k, err := new(edwards25519.Scalar).SetUniformBytes(h.Sum(sum[:0]))
	if err != nil {
		return nil, err
	}
	r, err := new(edwards25519.Scalar).SetCanonicalBytes(n.r[:])
	if err != nil {
		return nil, err
	}
	return append(n.point[:len(n.point):len(n.point)], k.MultiplyAdd(k, s.secret, r).Bytes()...), nil
}

// receipt makes the wire form of a receipt that both ends of a hop have signed.
func (p *nonces) receipt(r *protocol.Receipt, sender, receiver *signer) ([]byte, error) {
	body, err := r.Encode()
	if err != nil {
		return nil, err
	}
	half := func(s *signer, domain string) ([]byte, error) {
		n, err := p.take()
		if err != nil {
			return nil, err
		}
		return s.sign(n, domain, body)
	}
	out := &protocol.SignedReceipt{Body: body, Key: sender.public, ReceiverKey: receiver.public}
	if out.Sig, err = half(sender, protocol.ReceiptDomain); err != nil {
		return nil, err
	}
	if out.ReceiverSig, err = half(receiver, protocol.ReceiptReceiverDomain); err != nil {
		return nil, err
	}
	return out.Encode(), nil
}
