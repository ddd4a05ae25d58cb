package seam_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamclient"
	"neuron/engine/seam/seamtest"
	"neuron/internal/identity"
)

func TestOpenRefusals(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 3})
	_, foreignKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	stranger := newID(t)
	for name, c := range map[string]struct {
		hop    int // receiver
		lease  func(*protocol.Lease)
		signed func(*protocol.SignedLease)
		req    func(*protocol.OpenRequest)
		key    ed25519.PrivateKey
		as     *identity.Identity
		code   protocol.Code
	}{
		"expired":          {lease: func(l *protocol.Lease) { l.Expires = time.Now().Add(-time.Second) }, code: protocol.CodeLeaseExpired},
		"foreign tracker":  {key: foreignKey, code: protocol.CodeLeaseInvalid},
		"tampered":         {signed: func(s *protocol.SignedLease) { s.Lease = bytes.Replace(s.Lease, []byte("1024"), []byte("1025"), 1) }, code: protocol.CodeLeaseInvalid},
		"tampered sig":     {signed: func(s *protocol.SignedLease) { s.Sig[3] ^= 1 }, code: protocol.CodeLeaseInvalid},
		"wrong driver":     {as: stranger, code: protocol.CodeLeaseInvalid},
		"another hop":      {req: func(r *protocol.OpenRequest) { r.Hop = 1 }, code: protocol.CodeLeaseInvalid},
		"hop off route":    {req: func(r *protocol.OpenRequest) { r.Hop = 3 }, code: protocol.CodeLeaseInvalid},
		"negative hop":     {req: func(r *protocol.OpenRequest) { r.Hop = -1 }, code: protocol.CodeInvalidRequest},
		"no lease":         {req: func(r *protocol.OpenRequest) { r.Lease = nil }, code: protocol.CodeInvalidRequest},
		"protocol":         {lease: func(l *protocol.Lease) { l.EngineBuild.Protocol = 2 }, code: protocol.CodeProtocolVersion},
		"llama build":      {lease: func(l *protocol.Lease) { l.EngineBuild.Llama = "other" }, code: protocol.CodeBuildMismatch},
		"model":            {lease: func(l *protocol.Lease) { l.Model = protocol.ModelID(strings.Repeat("ab", 32)) }, code: protocol.CodeModelUnknown},
		"layer count":      {lease: func(l *protocol.Lease) { l.Layers = 13; l.Hops[2].Use.Last = 13 }, code: protocol.CodeLeaseInvalid},
		"range ends later": {lease: func(l *protocol.Lease) { l.Hops[0].Use.Last = 5; l.Hops[1].Use.First = 5 }, code: protocol.CodeRangeInvalid},
		"range starts elsewhere": {hop: 1, lease: func(l *protocol.Lease) { l.Hops[0].Use.Last = 3; l.Hops[1].Use.First = 3 },
			req: func(r *protocol.OpenRequest) { r.Hop = 1 }, code: protocol.CodeRangeInvalid},
		"no sampler on the tail": {hop: 2, req: func(r *protocol.OpenRequest) { r.Hop = 2; r.Sampler = nil }, code: protocol.CodeInvalidRequest},
		"prompt to the head":     {req: func(r *protocol.OpenRequest) { r.Prompt = []int32{1} }, code: protocol.CodeInvalidRequest},
		"dtype":                  {lease: func(l *protocol.Lease) { l.DType = protocol.DTypeF16 }, code: protocol.CodeUnsupported},
		"context above the cap":  {lease: func(l *protocol.Lease) { l.Context = seamtest.MaxContext + 1 }, code: protocol.CodeContextExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			l := n.lease()
			if c.lease != nil {
				c.lease(l)
			}
			if name == "expired" {
				l.Issued = l.Expires.Add(-time.Hour)
			}
			key := n.tracker
			if c.key != nil {
				key = c.key
			}
			s, err := protocol.SignLease(l, key)
			if err != nil {
				t.Fatal(err)
			}
			if c.signed != nil {
				c.signed(s)
			}
			req := &protocol.OpenRequest{Lease: s}
			if c.hop == 2 {
				req.Sampler = &protocol.Sampler{}
			}
			if c.req != nil {
				c.req(req)
			}
			client := n.client
			if c.as != nil {
				client = n.newClient(c.as, false)
			}
			_, err = client.Open(t.Context(), l.Hops[c.hop], req)
			e := wantCode(t, "open", err, c.code)
			if e.Hop == nil || e.Phase != protocol.PhaseOpening {
				t.Errorf("error %v in phase %q names no hop or phase", e, e.Phase)
			}
		})
	}
	for i, nd := range n.nodes {
		if nd.stage.Opened() != 0 {
			t.Errorf("hop %d reserved KV for a refused request", i)
		}
	}
}

func TestEarlyExitOpens(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 2})
	n.nodes[1].stage = seamtest.NewStage(protocol.Range{First: 4, Last: seamtest.Layers}, 4096)
	l := n.lease()
	l.Hops[0].Use.Last, l.Hops[1].Use.First = 4, 4
	n.open(l)
}

func TestDuplicateOpen(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 1})
	l := n.lease()
	n.open(l)
	_, err := n.client.Open(t.Context(), l.Hops[0], request(l, n.sign(l), 0))
	wantCode(t, "second open", err, protocol.CodeSessionExists)
	if err := n.client.Release(t.Context(), l.Hops[0], l.Session); err != nil {
		t.Fatal(err)
	}
	if n.nodes[0].stage.Sessions() != 0 {
		t.Fatal("release returned before the KV was free")
	}
	_, err = n.client.Open(t.Context(), l.Hops[0], request(l, n.sign(l), 0))
	wantCode(t, "open after release", err, protocol.CodeSessionExists)
	if err := n.client.Release(t.Context(), l.Hops[0], protocol.NewSessionID()); err != nil {
		t.Errorf("release of an unknown session: %v", err)
	}
}

func TestDrain(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 1})
	r := n.start()
	r.drainAcks()
	n.nodes[0].server.Drain(true)
	l := n.lease()
	_, err := n.client.Open(t.Context(), l.Hops[0], request(l, n.sign(l), 0))
	wantCode(t, "open while draining", err, protocol.CodeUnavailable)
	r.prefill(0, 0, 10)
	r.token(10)
	n.nodes[0].server.Drain(false)
	if _, err := n.client.Open(t.Context(), l.Hops[0], request(l, n.sign(l), 0)); err != nil {
		t.Fatal(err)
	}
}

// TestWhoMay asks with keys that are known but have no business there.
func TestWhoMay(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 3})
	r := n.start()
	r.drainAcks()
	l := n.lease()
	n.open(l)
	stranger, other := n.newClient(newID(t), false), n.newClient(n.nodes[0].id, false)
	for name, c := range map[string]*seamclient.Client{"stranger": stranger, "another hop": other} {
		_, err := c.State(t.Context(), l.Hops[1], l.Session)
		wantCode(t, name+" asks", err, protocol.CodeForbidden)
		wantCode(t, name+" releases", c.Release(t.Context(), l.Hops[1], l.Session), protocol.CodeForbidden)
		_, err = c.Tokens(t.Context(), l.Hops[2], l.Session)
		wantCode(t, name+" reads tokens", err, protocol.CodeForbidden)
		_, err = c.Stream(t.Context(), l.Hops[0], l.Session)
		wantCode(t, name+" streams", err, protocol.CodeForbidden)
	}
	// Not even the driver may enter in the middle.
	_, err := n.client.Stream(t.Context(), l.Hops[1], l.Session)
	wantCode(t, "wrong previous hop", err, protocol.CodeForbidden)
	_, err = other.Stream(t.Context(), l.Hops[2], l.Session)
	wantCode(t, "previous hop but one", err, protocol.CodeForbidden)
	_, err = n.client.Tokens(t.Context(), l.Hops[0], l.Session)
	wantCode(t, "tokens of the head", err, protocol.CodeUnsupported)

	_, err = n.client.Stream(t.Context(), r.lease.Hops[0], r.lease.Session)
	wantCode(t, "second stream", err, protocol.CodeSessionExists)
	_, err = n.client.Tokens(t.Context(), r.lease.Hops[2], r.lease.Session)
	wantCode(t, "second token stream", err, protocol.CodeSessionExists)
	r.prefill(0, 0, 10) // and the first one is unharmed
	r.token(10)
}

// TestPlainHTTP speaks to the face without the client.
func TestPlainHTTP(t *testing.T) {
	n := newNetwork(t, netOptions{hops: 1})
	nd := n.nodes[0]
	tr := &http.Transport{TLSClientConfig: n.driver.ClientTLS(nd.id.ID())}
	defer tr.CloseIdleConnections()
	unknown := string(protocol.NewSessionID())
	for name, c := range map[string]struct {
		method, path string
		body         io.Reader
		status       int
		code         protocol.Code
	}{
		"unknown session":        {"GET", "/seam/v1/sessions/" + unknown, nil, 404, protocol.CodeSessionUnknown},
		"unknown session stream": {"POST", "/seam/v1/sessions/" + unknown + "/stream", nil, 404, protocol.CodeSessionUnknown},
		"unknown session tokens": {"GET", "/seam/v1/sessions/" + unknown + "/tokens", nil, 404, protocol.CodeSessionUnknown},
		"unknown release":        {"DELETE", "/seam/v1/sessions/" + unknown, nil, 404, protocol.CodeSessionUnknown},
		"malformed id":           {"GET", "/seam/v1/sessions/zz", nil, 400, protocol.CodeInvalidRequest},
		"unknown path":           {"GET", "/seam/v1/nothing", nil, 404, protocol.CodeNotFound},
		"wrong method":           {"PUT", "/seam/v1/sessions", nil, 404, protocol.CodeNotFound},
		"other version":          {"GET", "/seam/v2/ping", nil, 426, protocol.CodeProtocolVersion},
		"not JSON":               {"POST", "/seam/v1/sessions", strings.NewReader("{"), 400, protocol.CodeInvalidRequest},
		"large body":             {"POST", "/seam/v1/sessions", bytes.NewReader(bytes.Repeat([]byte(" "), 1<<20+1)), 413, protocol.CodeRequestTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			req, err := http.NewRequestWithContext(ctx, c.method, "https://"+nd.addr+c.path, c.body)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tr.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			var e protocol.Error
			if err := json.NewDecoder(resp.Body).Decode(&e); err != nil || e.Code != c.code || resp.StatusCode != c.status {
				t.Fatalf("status %d, %v (%v), want %d %s", resp.StatusCode, &e, err, c.status, c.code)
			}
		})
	}
}
