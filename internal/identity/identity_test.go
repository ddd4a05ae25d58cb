package identity

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"neuron/engine/protocol"
)

func newIdentity(t *testing.T) *Identity {
	t.Helper()
	id, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func TestLoadOrCreateKeepsTheKey(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	a, err := LoadOrCreate(dir)
	if err != nil {
		t.Fatal(err)
	}
	b, err := LoadOrCreate(dir)
	if err != nil {
		t.Fatal(err)
	}
	if a.ID() != b.ID() || !a.PrivateKey().Equal(b.PrivateKey()) {
		t.Fatalf("second start has another key: %s, %s", a.ID(), b.ID())
	}
	if a.ID() != protocol.NodeIDOf(a.Public()) {
		t.Fatal("the id is not the hash of the public key")
	}
	if !ed25519.Verify(b.Public(), []byte("m"), a.Sign([]byte("m"))) {
		t.Fatal("signature does not verify")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Fatalf("folder holds %v (%v), want the key alone", entries, err)
	}
}

func TestKeyFileIsClosedToOthers(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("no permission bits on Windows")
	}
	dir := t.TempDir()
	if _, err := LoadOrCreate(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, KeyFile)
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := LoadOrCreate(dir); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v (%v), want 0600", info.Mode(), err)
	}
}

func TestDamagedKeyIsAnErrorAndStays(t *testing.T) {
	t.Parallel()
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"empty":     {},
		"text":      []byte("hello"),
		"large":     bytes.Repeat([]byte("x"), maxKeyFile+1),
		"other key": pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}),
		"not pkcs8": pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: []byte("zz")}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, KeyFile)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := LoadOrCreate(dir)
			if !errors.Is(err, &protocol.Error{Code: protocol.CodeDataFolder}) {
				t.Fatalf("error %v, want data_folder", err)
			}
			if got, _ := os.ReadFile(path); !bytes.Equal(got, b) {
				t.Fatal("the file was changed")
			}
		})
	}
	if _, err := LoadOrCreate(filepath.Join(os.DevNull, "x")); !errors.Is(err, &protocol.Error{Code: protocol.CodeDataFolder}) {
		t.Fatalf("folder that cannot be: %v", err)
	}
}

// handshake connects client and server over loopback and returns both ends'
// errors and what the server saw.
func handshake(t *testing.T, server, client *tls.Config) (seen protocol.NodeID, serverErr, clientErr error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		raw, err := l.Accept()
		if err != nil {
			serverErr = err
			return
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(5 * time.Second))
		c := tls.Server(raw, server)
		if serverErr = c.Handshake(); serverErr != nil {
			return
		}
		cs := c.ConnectionState()
		if cs.DidResume || cs.NegotiatedProtocol != alpn {
			t.Errorf("resumed %v, protocol %q", cs.DidResume, cs.NegotiatedProtocol)
		}
		seen, serverErr = PeerID(&cs)
		c.Write([]byte("x"))
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(5 * time.Second))
	c := tls.Client(raw, client)
	if clientErr = c.Handshake(); clientErr == nil {
		// With TLS 1.3 the client learns of a refused certificate here.
		_, clientErr = io.ReadFull(c, make([]byte, 1))
	}
	raw.Close()
	<-done
	return seen, serverErr, clientErr
}

func TestHandshakePinsBothEnds(t *testing.T) {
	t.Parallel()
	a, b, other := newIdentity(t), newIdentity(t), newIdentity(t)

	seen, serverErr, clientErr := handshake(t, a.ServerTLS(), b.ClientTLS(a.ID()))
	if serverErr != nil || clientErr != nil || seen != b.ID() {
		t.Fatalf("server saw %s (%v), client %v", seen, serverErr, clientErr)
	}

	if _, _, clientErr = handshake(t, a.ServerTLS(), b.ClientTLS(other.ID())); !errors.Is(clientErr, &protocol.Error{Code: protocol.CodeForbidden}) {
		t.Fatalf("wrong peer: %v, want forbidden", clientErr)
	}

	bare := b.ClientTLS(a.ID())
	bare.Certificates = nil
	if _, serverErr, clientErr = handshake(t, a.ServerTLS(), bare); serverErr == nil || clientErr == nil {
		t.Fatalf("without a certificate: server %v, client %v", serverErr, clientErr)
	}

	foreign := b.ClientTLS(a.ID())
	foreign.Certificates = []tls.Certificate{ecdsaCertificate(t)}
	if _, serverErr, _ = handshake(t, a.ServerTLS(), foreign); !errors.Is(serverErr, &protocol.Error{Code: protocol.CodeUnauthorized}) {
		t.Fatalf("ECDSA certificate: %v, want unauthorized", serverErr)
	}

	old := b.ClientTLS(a.ID())
	old.MinVersion, old.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	if _, serverErr, clientErr = handshake(t, a.ServerTLS(), old); serverErr == nil || clientErr == nil {
		t.Fatal("TLS 1.2 was accepted")
	}
}

func ecdsaCertificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now(), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

func TestPeerIDWithoutConnection(t *testing.T) {
	t.Parallel()
	if _, err := PeerID(nil); !errors.Is(err, &protocol.Error{Code: protocol.CodeUnauthorized}) {
		t.Fatalf("error %v, want unauthorized", err)
	}
}

func FuzzParseKey(f *testing.F) {
	id, err := New()
	if err != nil {
		f.Fatal(err)
	}
	b, err := encodeKey(id.key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		key, err := parseKey(b)
		if err != nil {
			return
		}
		again, err := encodeKey(key)
		if err != nil {
			t.Fatal(err)
		}
		back, err := parseKey(again)
		if err != nil || !back.Equal(key) {
			t.Fatalf("round trip: %v", err)
		}
	})
}
