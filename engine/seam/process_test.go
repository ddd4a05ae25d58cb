package seam_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/receipt"
	"neuron/engine/receipt/hooks"
	"neuron/engine/seam"
	"neuron/engine/seam/seamclient"
	"neuron/engine/seam/seamtest"
	"neuron/internal/identity"
)

// nodeEnv makes the test binary a node: "RANGE TRACKERKEY", and behind them the
// folder of its receipts, if it shall keep some. It prints its node id and
// address and ends with its standard input.
const nodeEnv = "NEURON_SEAM_TEST_NODE"

func TestMain(m *testing.M) {
	if arg := os.Getenv(nodeEnv); arg != "" {
		if err := nodeMain(arg); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func nodeMain(arg string) error {
	text, rest, _ := strings.Cut(arg, " ")
	keyHex, dir, _ := strings.Cut(rest, " ")
	use, err := protocol.ParseRange(text)
	if err != nil {
		return err
	}
	key, err := hex.DecodeString(keyHex)
	if err != nil {
		return err
	}
	id, err := identity.New()
	if err != nil {
		return err
	}
	var receipts seam.Receipts
	if dir != "" {
		client := seamclient.New(id)
		defer client.Close()
		book, err := receipt.Open(receipt.Options{Identity: id, Dir: dir, Receiver: client, Tracker: &till{}, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			return err
		}
		defer book.Close()
		receipts = hooks.Hops{Book: book, Engine: engineVersion}
	}
	stage := seamtest.NewStage(use, 4096)
	server := seam.NewServer(seam.ServerOptions{
		Identity: id, Stage: func() seam.Stage { return stage },
		TrackerKey: func() ed25519.PublicKey { return key },
		Logger:     slog.New(slog.NewTextHandler(io.Discard, nil)),
		Silence:    silence, PingEvery: pingEvery, Receipts: receipts,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	fmt.Println(id.ID(), l.Addr())
	io.Copy(io.Discard, os.Stdin)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := server.Close(ctx); err != nil {
		return err
	}
	return <-served
}

// startProcess starts a node in a process of its own, which a test may kill or
// stop as the system does.
func startProcess(t *testing.T, use protocol.Range, tracker ed25519.PublicKey, receipts bool) *node {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	arg := fmt.Sprintf("%s=%s %x", nodeEnv, use, []byte(tracker))
	if receipts {
		arg += " " + t.TempDir()
	}
	cmd.Env = append(os.Environ(), arg)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		cmd.Process.Kill()
		cmd.Wait() // killed, so its status says nothing
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatalf("node process: %v", err)
	}
	id, addr, _ := strings.Cut(strings.TrimSpace(line), " ")
	return &node{nodeID: protocol.NodeID(id), addr: addr, use: use, proc: cmd.Process}
}

// brokenHop runs f on routes of three hops whose hop dead is a process.
func brokenHop(t *testing.T, f func(t *testing.T, n *network, r *route, dead int)) {
	for _, upgrade := range []bool{false, true} {
		for dead := range 3 {
			t.Run(fmt.Sprintf("upgrade=%v/hop=%d", upgrade, dead), func(t *testing.T) {
				n := newNetwork(t, netOptions{hops: 3, upgrade: upgrade, process: dead + 1})
				r := n.start()
				r.drainAcks()
				r.prefill(0, 0, 100)
				r.token(100)
				r.decode(0, 100)
				r.token(101)
				f(t, n, r, dead)
			})
		}
	}
}

// checkBroken checks what driver and neighbours make of the broken hop.
func checkBroken(t *testing.T, n *network, r *route, dead int, code protocol.Code) {
	t.Helper()
	e := wantCode(t, "stream", r.streamEnd(), code)
	if e.Hop == nil || *e.Hop != dead || dead > 0 && e.Phase != protocol.PhaseDecode {
		t.Errorf("stream: %v in phase %q, want hop %d", e, e.Phase, dead)
	}
	if e := wantCode(t, "tokens", r.tokensEnd(), code); e.Hop == nil || *e.Hop != dead {
		t.Errorf("tokens: %v, want hop %d", e, dead)
	}
	n.freed()
	for i, nd := range n.nodes {
		if i == dead {
			continue
		}
		if i != dead-1 && i != dead+1 {
			if f := nd.failures(); len(f) != 0 {
				t.Errorf("hop %d blames %+v", i, f)
			}
			continue
		}
		until(t, freedIn, "neighbours report", func() bool { return len(nd.failures()) == 1 })
		f := nd.failures()[0]
		if f.node != n.nodes[dead].nodeID {
			t.Errorf("hop %d blames %s", i, f.node)
		}
		wantHop(t, "blame", wantCode(t, "blame", f.err, code), dead, protocol.PhaseDecode)
	}
}

func TestHopIsKilled(t *testing.T) {
	brokenHop(t, func(t *testing.T, n *network, r *route, dead int) {
		start := time.Now()
		if err := n.nodes[dead].proc.Kill(); err != nil {
			t.Fatal(err)
		}
		checkBroken(t, n, r, dead, protocol.CodeHopLost)
		if d := time.Since(start); d > silence {
			t.Errorf("noticed after %s, want at once", d)
		}
	})
}
