package server

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"net/netip"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/channel"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

// stub is a peer without a socket.
type stub struct {
	hello protocol.Hello
	id    protocol.NodeID
	sent  []*protocol.Envelope
}

func (s *stub) Node() protocol.NodeID          { return s.id }
func (s *stub) Hello() *protocol.Hello         { return &s.hello }
func (s *stub) Epoch() uint64                  { return 1 }
func (s *stub) Remote() netip.Addr             { return netip.MustParseAddr("203.0.113.5") }
func (s *stub) Refuse(*protocol.Error, int)    {}
func (s *stub) Send(e *protocol.Envelope) bool { s.sent = append(s.sent, e); return true }
func (s *stub) SendError(id uint64, err *protocol.Error) {
	e, _ := protocol.Pack(protocol.MsgError, id, err)
	s.Send(e)
}

// FuzzMessage sends hostile messages through the real dispatch, as a node and
// as a gateway, into a core that knows the node, a shard and a session. After
// each, all views must still work and every answer must be a known message.
func FuzzMessage(f *testing.F) {
	dir, err := datadir.Open(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	db, err := sqlite.Open(context.Background(), dir.File("t.db"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { db.Close(); dir.Close() })
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	id := protocol.NodeIDOf(key.Public().(ed25519.PublicKey))
	const sid = "s-aaaaaaaaaaaaaaaaaaaaaaaaaa"
	for _, body := range []string{
		`{"kind":"report","body":{"shards":[{"state":"ready","capability":{"model":"` + string(testModel) + `","name":"g","layers":4,"loaded":{"first":0,"last":4},"head":true,"tail":true,"exits":[1,2],"width":64,"kv_bytes_per_cell":8,"max_context":4096},"free_kv_bytes":100000,"max_sessions":2}]}}`,
		`{"kind":"report","body":{"shards":[{"state":"ready","capability":{"layers":-1,"loaded":{"first":-9223372036854775808,"last":9223372036854775807}}}],"memory_pressure":-1e308}}`,
		`{"kind":"route","id":7,"body":{"session":"s-bbbbbbbbbbbbbbbbbbbbbbbbba","model":"g","context":100,"prompt":10}}`,
		`{"kind":"route","body":{"session":"` + sid + `","model":"` + string(testModel) + `","context":9223372036854775807}}`,
		`{"kind":"session","body":{"telemetry":{"session":"` + sid + `","phase":"decode","seq":2,"tokens":3}}}`,
		`{"kind":"hop_failed","body":{"session":"` + sid + `","node":"` + string(id) + `","error":{"code":"hop_lost","message":"x"}}}`,
		`{"kind":"models","id":18446744073709551615}`, `{"kind":"hello","body":null}`, `{"kind":"error","body":1}`, `{"kind":"x"}`, `[]`, `{"kind":"report","body":null}`,
	} {
		f.Add([]byte(body))
	}
	now := time.Unix(1_700_000_000, 0)
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, _, err := channel.CheckHello(raw, make([]byte, 32), key.Public().(ed25519.PublicKey)); err == nil {
			t.Fatal("a hello with a valid signature was guessed")
		}
		e, err := protocol.ParseEnvelope(raw)
		if err != nil {
			return
		}
		o := Options{Listen: "127.0.0.1:0", Now: func() time.Time { return now }}
		if err := o.fill(); err != nil {
			t.Fatal(err)
		}
		c := newCore(o, key, forgetful{db})
		if err := errors.Join(c.openMoney(t.Context()), c.openReceipts(t.Context())); err != nil {
			t.Fatal(err)
		}
		node := &stub{id: id, hello: protocol.Hello{Role: protocol.RoleNode, Build: testBuild, Addr: "h:1"}}
		gw := &stub{id: id, hello: protocol.Hello{Role: protocol.RoleGateway, Build: testBuild}}
		c.joined(node)
		c.joined(gw)
		for _, first := range []string{
			`{"kind":"report","body":{"shards":[{"state":"ready","capability":{"model":"` + string(testModel) + `","name":"g","layers":4,"loaded":{"first":0,"last":4},"head":true,"tail":true,"width":64,"kv_bytes_per_cell":8,"max_context":4096},"free_kv_bytes":100000,"max_sessions":2}]}}`,
		} {
			env, err := protocol.ParseEnvelope([]byte(first))
			if err != nil {
				t.Fatal(err)
			}
			c.handle(t.Context(), node, env)
		}
		open, _ := protocol.Pack(protocol.MsgRoute, 1, protocol.RouteRequest{Session: sid, Model: "g", Context: 64})
		c.handle(t.Context(), gw, open)
		if last := gw.sent[len(gw.sent)-1]; last.Kind != protocol.MsgLease {
			t.Fatalf("no lease: %s", last.Body)
		}
		for _, p := range []*stub{node, gw} {
			c.handle(t.Context(), p, e)
			for _, m := range p.sent {
				if b, err := json.Marshal(m); err != nil || len(b) > protocol.MaxMessage {
					t.Fatalf("answer %s: %v", m.Kind, err)
				}
			}
		}
		c.tick()
		for _, v := range []any{c.Models(), c.Nodes(), c.Sessions()} {
			if _, err := json.Marshal(v); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.metrics.registry.Gather(); err != nil {
			t.Fatal(err)
		}
	})
}

// forgetful keeps no sessions, so that each input meets the same store.
type forgetful struct{ store.Store }

func (forgetful) AddSession(context.Context, store.Session) error { return nil }
