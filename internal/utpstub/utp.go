// Package utp stands in for github.com/anacrolix/go-utp, whose version that
// anacrolix/torrent v1.62.0 asks for is not served by module proxies. It has
// the names that the library compiles against and refuses to open a socket;
// Neuron switches uTP off. docs/decisions/0009 has the reason and says when it
// can go. Nothing but the replace line in go.mod may refer to it.
package utp

import (
	"context"
	"errors"
	"log/slog"
	"net"
)

// Default names the implementation in error texts.
const Default = "none"

// ErrDisabled answers every attempt to open a socket.
var ErrDisabled = errors.New("uTP is not built in")

// FirewallCallback decides about incoming connections.
type FirewallCallback func(net.Addr) bool

// Option configures a socket.
type Option func()

// WithLogger is accepted and ignored.
func WithLogger(*slog.Logger) Option { return func() {} }

// Socket is what a uTP implementation offers.
type Socket interface {
	net.PacketConn
	Accept() (net.Conn, error)
	Addr() net.Addr
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	SetFirewallCallback(FirewallCallback)
}

// NewSocket returns ErrDisabled.
func NewSocket(string, string, ...Option) (Socket, error) { return nil, ErrDisabled }

// NewSocketFromPacketConn returns ErrDisabled.
func NewSocketFromPacketConn(net.PacketConn, ...Option) (Socket, error) { return nil, ErrDisabled }
