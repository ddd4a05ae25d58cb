package program_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/localapi"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/internal/leaktest"
	"neuron/internal/testdisk"
	"neuron/tracker-server/server"
)

// readOnly is a folder that this user cannot write.
func readOnly(t *testing.T) string {
	t.Helper()
	if os.Getuid() == 0 {
		return testdisk.Mount(t, "ro,size=1m")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(dir, 0o700) })
	return dir
}

// TestRefusedNodes are mistakes that NewNode must name.
func TestRefusedNodes(t *testing.T) {
	file := func(t *testing.T, name, content string) string {
		p := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	for name, c := range map[string]struct {
		change func(*testing.T, *program.NodeOptions)
		code   protocol.Code
		text   string // part of the message
	}{
		"no data folder": {func(_ *testing.T, o *program.NodeOptions) { o.Data = "" }, protocol.CodeDataFolder, "data folder"},
		"data folder is a file": {func(t *testing.T, o *program.NodeOptions) { o.Data = file(t, "data", "x") },
			protocol.CodeDataFolder, "not a directory"},
		"data folder below a file": {func(t *testing.T, o *program.NodeOptions) { o.Data = filepath.Join(file(t, "data", "x"), "below") },
			protocol.CodeDataFolder, "not a directory"},
		"read-only data folder":      {func(t *testing.T, o *program.NodeOptions) { o.Data = readOnly(t) }, protocol.CodeDataFolder, ""},
		"new one in a read-only one": {func(t *testing.T, o *program.NodeOptions) { o.Data = filepath.Join(readOnly(t), "new") }, protocol.CodeDataFolder, ""},
		"seam port in use":           {func(t *testing.T, o *program.NodeOptions) { o.SeamListen = busyPort(t) }, protocol.CodePortInUse, "another program listens"},
		"local API port in use":      {func(t *testing.T, o *program.NodeOptions) { o.APIListen = busyPort(t) }, protocol.CodePortInUse, "local API"},
		"local API for everyone":     {func(_ *testing.T, o *program.NodeOptions) { o.APIListen = "0.0.0.0:0" }, protocol.CodeInvalidRequest, "loopback"},
		"seam address without port":  {func(_ *testing.T, o *program.NodeOptions) { o.SeamListen = "127.0.0.1" }, protocol.CodeInvalidRequest, "cannot listen"},
		"no model file":              {func(_ *testing.T, o *program.NodeOptions) { o.Model = "absent.gguf" }, protocol.CodeModelUnknown, "there is no file absent.gguf"},
		"truncated model": {func(t *testing.T, o *program.NodeOptions) {
			o.Model = copyFile(t, filepath.Join(t.TempDir(), "short.gguf"), func(b []byte) []byte { return b[:len(b)/2] })
		}, protocol.CodeModelInvalid, "not a usable GGUF"},
		"text called .gguf": {func(t *testing.T, o *program.NodeOptions) { o.Model = file(t, "a.gguf", "hello, I am a text\n") },
			protocol.CodeModelInvalid, "not a usable GGUF"},
		"empty file": {func(t *testing.T, o *program.NodeOptions) { o.Model = file(t, "a.gguf", "") }, protocol.CodeModelInvalid, "not a usable GGUF"},
		"folder":     {func(t *testing.T, o *program.NodeOptions) { o.Model = t.TempDir() }, protocol.CodeModelInvalid, ""},
		"unknown family in part": {func(t *testing.T, o *program.NodeOptions) {
			o.Model, o.Layers = unknownFamily(t), "0-4"
		}, protocol.CodeModelUncut, "llamx"},
		"range beyond the model": {func(_ *testing.T, o *program.NodeOptions) { o.Layers = "4-9" }, protocol.CodeRangeInvalid, ""},
		"range upside down":      {func(_ *testing.T, o *program.NodeOptions) { o.Layers = "4-4" }, "", ""},
		"range that is none":     {func(_ *testing.T, o *program.NodeOptions) { o.Layers = "some" }, "", ""},
		"odd chunks":             {func(_ *testing.T, o *program.NodeOptions) { o.ChunkRows = 100 }, protocol.CodeInvalidRequest, "steps of 64"},
	} {
		t.Run(name, func(t *testing.T) {
			leaktest.Check(t)
			o := program.NodeOptions{Data: filepath.Join(t.TempDir(), "data"), Model: guide}
			c.change(t, &o)
			n, err := program.NewNode(t.Context(), o)
			if err == nil {
				n.Close()
				t.Fatal("no error")
			}
			var e *protocol.Error
			if !errors.As(err, &e) || c.code != "" && e.Code != c.code || !strings.Contains(e.Message, c.text) {
				t.Fatalf("%v (%q), want %s with %q", err, code(err), c.code, c.text)
			}
			if o.Data == "" || e.Code == protocol.CodeDataFolder {
				return
			}
			// Whatever failed, the folder is free again.
			n, err = program.NewNode(t.Context(), program.NodeOptions{Data: o.Data, Model: guide})
			if err != nil {
				t.Fatalf("the next node: %v", err)
			}
			n.Close()
		})
	}
}

// unknownFamily is the guide with the name of a family that nobody knows.
func unknownFamily(t *testing.T) string {
	return copyFile(t, filepath.Join(t.TempDir(), "unknown.gguf"), func(b []byte) []byte {
		head := min(len(b), 64<<10)
		return append(bytes.ReplaceAll(b[:head:head], []byte("llama"), []byte("llamx")), b[head:]...)
	})
}

func TestRefusedGateways(t *testing.T) {
	needLibrary(t)
	for name, c := range map[string]struct {
		change func(*testing.T, *program.GatewayOptions)
		code   protocol.Code
	}{
		"no model file":     {func(_ *testing.T, o *program.GatewayOptions) { o.Models = []string{"absent.gguf"} }, protocol.CodeModelUnknown},
		"port in use":       {func(t *testing.T, o *program.GatewayOptions) { o.Listen = busyPort(t) }, protocol.CodePortInUse},
		"tracker address":   {func(_ *testing.T, o *program.GatewayOptions) { o.Tracker = "ftp://x" }, protocol.CodeInvalidRequest},
		"open without key":  {func(_ *testing.T, o *program.GatewayOptions) { o.Listen, o.Key = "0.0.0.0:0", program.NoKey }, protocol.CodeInvalidRequest},
		"read-only folder":  {func(t *testing.T, o *program.GatewayOptions) { o.Data = readOnly(t) }, protocol.CodeDataFolder},
		"no library":        {func(t *testing.T, o *program.GatewayOptions) { o.NativeDir = t.TempDir() }, protocol.CodeNativeMissing},
		"no stage program":  {func(_ *testing.T, o *program.GatewayOptions) { o.Exe = "/nowhere/engine" }, protocol.CodeStageLost},
		"not stage program": {func(_ *testing.T, o *program.GatewayOptions) { o.Exe = "/bin/true" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			leaktest.Check(t)
			o := program.GatewayOptions{Data: filepath.Join(t.TempDir(), "data"), Tracker: "http://127.0.0.1:1", Models: []string{guide}}
			c.change(t, &o)
			g, err := program.NewGateway(t.Context(), o)
			if err == nil {
				g.Close()
				t.Fatal("no error")
			}
			if code(err) == "" || c.code != "" && code(err) != c.code {
				t.Fatalf("%v (%q), want %s", err, code(err), c.code)
			}
			if _, err := program.ReadEndpoint(o.Data); err == nil {
				t.Error("there is an address of a gateway that does not run")
			}
		})
	}
}

// TestCloseWithoutRun wants both programs to give everything back.
func TestCloseWithoutRun(t *testing.T) {
	needLibrary(t)
	leaktest.Check(t)
	dir := t.TempDir()
	for range 2 {
		n, err := program.NewNode(t.Context(), program.NodeOptions{Data: filepath.Join(dir, "node"), Model: guide, Layers: "2-5"})
		if err != nil {
			t.Fatal(err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := n.Close(); err != nil {
			t.Errorf("the second time: %v", err)
		}
		g, err := program.NewGateway(t.Context(), program.GatewayOptions{
			Data: filepath.Join(dir, "gateway"), Tracker: "http://127.0.0.1:1", Models: []string{guide},
		})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := g.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := localapi.Dial(filepath.Join(dir, "node")); code(err) != protocol.CodeUnavailable {
		t.Errorf("the local API after Close: %v", err)
	}
	if _, err := program.ReadEndpoint(filepath.Join(dir, "gateway")); code(err) != protocol.CodeUnavailable {
		t.Errorf("the gateway's address after Close: %v", err)
	}
}

// TestOneProcessPerFolder starts the second program while the first one runs.
func TestOneProcessPerFolder(t *testing.T) {
	leaktest.Check(t)
	data := t.TempDir()
	n, err := program.NewNode(t.Context(), program.NodeOptions{Data: data, Model: guide})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	_, err = program.NewNode(t.Context(), program.NodeOptions{Data: data, Model: guide})
	if code(err) != protocol.CodeAlreadyRunning || !strings.Contains(err.Error(), data) {
		t.Errorf("second node: %v", err)
	}
	_, err = program.NewGateway(t.Context(), program.GatewayOptions{Data: data, Tracker: "http://127.0.0.1:1", Models: []string{guide}})
	if code(err) != protocol.CodeAlreadyRunning {
		t.Errorf("gateway in the node's folder: %v", err)
	}
}

// TestLibraryMissing wants Run to end by itself, with and without a tracker.
func TestLibraryMissing(t *testing.T) {
	for name, tracker := range map[string]string{"alone": "", "with a tracker": "http://127.0.0.1:1"} {
		t.Run(name, func(t *testing.T) {
			leaktest.Check(t)
			n, err := program.NewNode(t.Context(), program.NodeOptions{
				Data: t.TempDir(), Model: guide, Tracker: tracker, NativeDir: t.TempDir(),
			})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			err = run("node", n.Run).wait(t)
			if code(err) != protocol.CodeNativeMissing {
				t.Errorf("Run: %v", err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// TestDiskFull cuts a shard on a file system that has no room for it.
func TestDiskFull(t *testing.T) {
	leaktest.Check(t)
	for name, c := range map[string]struct{ size, layers string }{
		"layers do not fit": {"size=1m", "0-4"},
		"nothing fits":      {"size=4k", "0-4"},
	} {
		t.Run(name, func(t *testing.T) {
			data := testdisk.Mount(t, c.size)
			n, err := program.NewNode(t.Context(), program.NodeOptions{Data: data, Model: guide, Layers: c.layers})
			if err == nil {
				n.Close()
			}
			if code(err) != protocol.CodeDiskFull {
				t.Fatalf("%v (%q)", err, code(err))
			}
		})
	}
}

// TestOldTracker connects a node to a tracker of another generation: the node
// runs on and says what is wrong.
func TestOldTracker(t *testing.T) {
	needLibrary(t)
	leaktest.Check(t)
	nonce := make([]byte, 32)
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	up := websocket.Upgrader{}
	tracker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := up.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		e, err := protocol.Pack(protocol.MsgChallenge, 0, protocol.Challenge{Nonce: nonce, Protocol: protocol.Version + 1, Tracker: public})
		if err == nil && ws.WriteJSON(e) == nil {
			ws.ReadMessage() // until the node leaves
		}
	}))
	t.Cleanup(tracker.Close)
	data := t.TempDir()
	n, err := program.NewNode(t.Context(), program.NodeOptions{Data: data, Model: guide, Threads: 1, Tracker: tracker.URL})
	if err != nil {
		t.Fatal(err)
	}
	p := run("node", n.Run)
	defer p.end(t)
	eventually(t, "the health entry", func() bool {
		c, err := localapi.Dial(data)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := c.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range s.Health {
			if h.Code == protocol.CodeProtocolVersion {
				if !strings.Contains(h.Text, "protocol") || h.Remedy == "" || s.Tracker.State != "refused" || s.Tracker.Connected {
					t.Errorf("%+v, tracker %+v", h, s.Tracker)
				}
				return true
			}
		}
		return false
	})
}

// TestOldNode speaks to the real tracker as an engine of another generation.
func TestOldNode(t *testing.T) {
	leaktest.Check(t)
	s, err := server.New(server.Options{Listen: "127.0.0.1:0", Data: t.TempDir(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	p := run("tracker", s.Run)
	defer p.end(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, resp, err := websocket.DefaultDialer.DialContext(ctx, "ws://"+s.Addr()+"/v1/nodes", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	defer ws.Close()
	var e protocol.Envelope
	if err := ws.ReadJSON(&e); err != nil {
		t.Fatal(err)
	}
	ch, err := protocol.Unpack[protocol.Challenge](&e)
	if err != nil {
		t.Fatal(err)
	}
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	hello, err := protocol.Pack(protocol.MsgHello, 0, protocol.Hello{
		Protocol: protocol.Version + 7, Engine: "old", Role: protocol.RoleNode, Key: public, Addr: "127.0.0.1:1",
		Sig: ed25519.Sign(private, protocol.HelloPayload(ch.Nonce, ch.Tracker)), Build: protocol.Build{Protocol: protocol.Version + 7, Llama: "x"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := ws.WriteJSON(hello); err != nil {
		t.Fatal(err)
	}
	if err := ws.ReadJSON(&e); err != nil {
		t.Fatal(err)
	}
	r, err := protocol.Unpack[protocol.Refused](&e)
	if err != nil {
		t.Fatal(err)
	}
	if e.Kind != protocol.MsgRefused || r.Error == nil || r.Error.Code != protocol.CodeProtocolVersion || !strings.Contains(r.Error.Message, "protocol") {
		t.Errorf("%s %+v", e.Kind, r.Error)
	}
}
