package identity

import (
	"crypto/ed25519"
	"crypto/tls"

	"neuron/engine/protocol"
)

// alpn is the only protocol that is offered: net/http closes a server
// connection whose negotiated protocol it does not know, so Neuron's own
// version is in the path instead.
const alpn = "http/1.1"

// ServerTLS is the configuration of a listener: TLS 1.3, a client certificate
// is required, and any Ed25519 key is accepted, for the key is the identity.
// The caller asks PeerID who is there.
func (i *Identity) ServerTLS() *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{i.cert},
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{alpn},
		ClientAuth:             tls.RequireAnyClientCert,
		SessionTicketsDisabled: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			_, err := PeerID(&cs)
			return err
		},
	}
}

// ClientTLS is the configuration for dialling peer: the handshake fails with a
// forbidden error when another key answers.
func (i *Identity) ClientTLS(peer protocol.NodeID) *tls.Config {
	return &tls.Config{
		Certificates:           []tls.Certificate{i.cert},
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{alpn},
		SessionTicketsDisabled: true,
		// Names and chains say nothing here; VerifyConnection pins the key
		// and, unlike VerifyPeerCertificate, runs on every connection.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			got, err := PeerID(&cs)
			if err != nil {
				return err
			}
			if got != peer {
				return protocol.Errorf(protocol.CodeForbidden, "node %s answered where node %s was expected", got.Short(), peer.Short())
			}
			return nil
		},
	}
}

// PeerID is the node id of the other end of a TLS connection. The handshake
// has proven that the peer holds the certificate's key. The error's code is
// unauthorized.
func PeerID(cs *tls.ConnectionState) (protocol.NodeID, error) {
	if cs == nil || len(cs.PeerCertificates) == 0 {
		return "", protocol.Errorf(protocol.CodeUnauthorized, "the peer showed no certificate")
	}
	pub, ok := cs.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	if !ok || len(pub) != ed25519.PublicKeySize {
		return "", protocol.Errorf(protocol.CodeUnauthorized, "the peer's key is not an Ed25519 key")
	}
	return protocol.NodeIDOf(pub), nil
}
