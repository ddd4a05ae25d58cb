package hooks_test

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"neuron/engine/control/controltest"
	"neuron/engine/protocol"
	"neuron/engine/seam/seamtest"
)

// nodeEnv makes the test binary a node with the whole model: "TRACKER KEY DIR".
// It prints its node id and address and ends with its standard input.
const nodeEnv = "NEURON_RECEIPT_TEST_NODE"

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
	f := strings.SplitN(arg, " ", 3)
	key, err := hex.DecodeString(f[1])
	if err != nil {
		return err
	}
	p, err := newParty(f[2], f[0], key, protocol.RoleNode)
	if err != nil {
		return err
	}
	if err := p.serve(useOf(0, 1), key); err != nil {
		return err
	}
	fmt.Println(p.id.ID(), p.addr)
	io.Copy(io.Discard, os.Stdin)
	p.close()
	return nil
}

// startNode starts a node as a process; kill ends it as a crash does.
func (w *world) startNode(dir string) (hop protocol.Hop, kill func()) {
	w.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		w.t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %x %s", nodeEnv, w.tr.URL(), []byte(w.tr.Public()), dir))
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	ended := false
	kill = func() {
		if !ended {
			ended = true
			cmd.Process.Kill()
			cmd.Wait() // killed, so its status says nothing
			stdin.Close()
		}
	}
	w.t.Cleanup(kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		w.t.Fatalf("node process: %v", err)
	}
	id, addr, _ := strings.Cut(strings.TrimSpace(line), " ")
	return protocol.Hop{Node: protocol.NodeID(id), Addr: addr, Use: useOf(0, 1), StepMicros: 1000}, kill
}

// A node is killed when its receipts are signed and the tracker has taken none:
// the next run delivers all of them, once.
func TestKilledBetweenSignatureAndDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0)
	var open atomic.Bool
	var mu sync.Mutex
	asked := map[string]bool{} // guarded by mu
	w.tr.Receipts = func(raw []byte) protocol.ReceiptVerdict {
		mu.Lock()
		asked[string(raw)] = true
		mu.Unlock()
		if open.Load() {
			return protocol.ReceiptVerdict{Status: protocol.ReceiptAccepted}
		}
		return protocol.ReceiptVerdict{Status: protocol.ReceiptRetry}
	}
	dir := t.TempDir()
	hop, kill := w.startNode(dir)
	w.route = []protocol.Hop{hop}
	const prompt, tokens = 130, 70
	if fin := w.generate(prompt, tokens, -1); fin != protocol.FinishLength {
		t.Fatal(fin)
	}
	// Three chunks of at most 64, and decode spans of 32, 32 and 5 rows.
	const spans = 6
	eventually(t, "the driver has signed all", func() bool { return w.driver.book.Stats().Given >= spans })
	// The receipts come back to the node after the driver has signed them.
	eventually(t, "the tracker was asked to take them", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(asked) == spans
	})
	kill()
	if n := len(w.taken()[0]); n != 0 {
		t.Fatalf("the tracker has taken %d receipts", n)
	}
	open.Store(true)
	again, _ := w.startNode(dir)
	if again.Node != hop.Node {
		t.Fatal("another node came back")
	}
	w.tr.Wait(t, "all receipts", func(r controltest.Record) bool { return len(r.Receipts) >= spans })
	got := w.taken()[0]
	if len(got) != spans || rows(got) != prompt+tokens-1 {
		t.Errorf("%d receipts for %d rows", len(got), rows(got))
	}
	for k, x := range got {
		if int(x.Span.Seq) != k || x.Model != seamtest.Model {
			t.Errorf("receipt %d: %+v", k, x)
		}
	}
}
