package channel

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"time"

	"neuron/engine/protocol"
)

// handshake sends the challenge, proves the peer's key, asks the handler and
// sends the welcome.
func (c *Conn) handshake() error {
	o := &c.hub.o
	nonce := make([]byte, 32)
	rand.Read(nonce) // never fails (crypto/rand)
	e, err := protocol.Pack(protocol.MsgChallenge, 0, protocol.Challenge{Nonce: nonce, Protocol: protocol.Version, Tracker: o.Key})
	if err != nil {
		return err
	}
	c.Send(e)
	_ = c.ws.SetReadDeadline(time.Now().Add(o.HandshakeTimeout)) // never fails in gorilla
	_, raw, err := c.ws.ReadMessage()
	if err != nil {
		return protocol.Errorf(protocol.CodeTimeout, "no hello came: %w", err)
	}
	h, id, err := CheckHello(raw, nonce, o.Key)
	if err != nil {
		return err
	}
	c.hello, c.id = h, id
	ctx, cancel := context.WithTimeout(c.hub.ctx, o.HandshakeTimeout)
	defer cancel()
	welcome, err := o.Handler.Admit(ctx, h, id)
	if err != nil {
		return err
	}
	c.epoch = welcome.Epoch
	if e, err = protocol.Pack(protocol.MsgWelcome, 0, welcome); err != nil {
		return err
	}
	c.Send(e)
	return nil
}

// CheckHello reads the first message of a peer and verifies its signature over
// the nonce and the tracker's key. Errors: invalid_request, protocol_version,
// unauthorized.
func CheckHello(raw, nonce []byte, tracker ed25519.PublicKey) (*protocol.Hello, protocol.NodeID, error) {
	e, err := protocol.ParseEnvelope(raw)
	if err != nil {
		return nil, "", err
	}
	if e.Kind != protocol.MsgHello {
		return nil, "", protocol.Errorf(protocol.CodeInvalidRequest, "the first message is %.64q, not a hello", string(e.Kind))
	}
	h, err := protocol.Unpack[protocol.Hello](e)
	if err != nil {
		return nil, "", err
	}
	if h.Protocol != protocol.Version || h.Build.Protocol != protocol.Version {
		return nil, "", protocol.Errorf(protocol.CodeProtocolVersion,
			"this node speaks protocol %d (engine %.64q), the tracker speaks %d", h.Protocol, h.Engine, protocol.Version)
	}
	if len(h.Key) != ed25519.PublicKeySize || !ed25519.Verify(h.Key, protocol.HelloPayload(nonce, tracker), h.Sig) {
		return nil, "", protocol.Errorf(protocol.CodeUnauthorized, "the hello's signature is wrong")
	}
	return h, protocol.NodeIDOf(h.Key), nil
}
