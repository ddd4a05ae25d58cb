// Package identity is a node's key: an Ed25519 key pair, the node id that is
// the hash of its public half, and the self-signed certificate with which both
// ends of a connection prove that they hold the key.
//
// Every part of the engine that opens or accepts connections may import it. It
// knows nothing of trackers, leases or sessions; who may do what is decided by
// its callers from the peer's node id.
package identity

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"

	"neuron/engine/protocol"
)

// Identity is a node's key and what follows from it. It is immutable and safe
// for concurrent use.
type Identity struct {
	key  ed25519.PrivateKey
	id   protocol.NodeID
	cert tls.Certificate
}

// New draws a new identity that lives in memory only.
func New() (*Identity, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("draw node key: %w", err)
	}
	return fromKey(key)
}

func fromKey(key ed25519.PrivateKey) (*Identity, error) {
	pub := key.Public().(ed25519.PublicKey)
	id := protocol.NodeIDOf(pub)
	// The certificate only carries the key: nobody checks its name or dates,
	// so the dates are as wide as the format allows (RFC 5280, 4.1.2.5).
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: string(id)},
		NotBefore:    time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		NotAfter:     time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, pub, key)
	if err != nil {
		return nil, fmt.Errorf("make node certificate: %w", err)
	}
	return &Identity{
		key:  key,
		id:   id,
		cert: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
	}, nil
}

// ID is the node id.
func (i *Identity) ID() protocol.NodeID { return i.id }

// Public is the public key; the caller must not change it.
func (i *Identity) Public() ed25519.PublicKey { return i.key.Public().(ed25519.PublicKey) }

// PrivateKey is the private key, for signers that need the key itself; the
// caller must not change, log or store it.
func (i *Identity) PrivateKey() ed25519.PrivateKey { return i.key }

// Sign signs msg. Callers put a domain in front so that a signature for one
// purpose is never valid for another.
func (i *Identity) Sign(msg []byte) []byte { return ed25519.Sign(i.key, msg) }
