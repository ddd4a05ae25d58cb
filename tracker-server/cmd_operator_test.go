package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/operator"
	"neuron/tracker-server/standing"
)

// certificate writes one for a public name, as an operator has.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tracker.example"}, DNSNames: []string{"tracker.example"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, b := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: raw}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

func TestOperatorCommands(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	running(t, data, "--admission", "approve")
	ok := func(args ...string) string {
		t.Helper()
		return mustRun(t, append(args, "--data", data)...)
	}
	key := strings.TrimSpace(ok("operator-key"))
	if raw, err := os.ReadFile(filepath.Join(data, operator.KeyFile)); err != nil || strings.TrimSpace(string(raw)) != key || !strings.HasPrefix(key, "nop-") {
		t.Errorf("key: %v", err)
	}
	a, b := strings.Repeat("a", 51)+"a", strings.Repeat("a", 10)+strings.Repeat("b", 41)+"a"
	for _, id := range []string{a, b} {
		if _, err := protocol.ParseNodeID(id); err != nil {
			t.Fatal(err)
		}
		if out := ok("ban", id, "--reason", "it cheats"); !strings.Contains(out, "now banned") {
			t.Errorf("ban: %s", out)
		}
	}
	if out := ok("ban", a[:12], "--reason", "it cheats"); !strings.Contains(out, "nothing has changed") {
		t.Errorf("again: %s", out)
	}
	if code, _, stderr := cli(t, "ban", a[:8], "--reason", "x", "--data", data); code != 1 || !strings.Contains(stderr, "2 nodes begin with") {
		t.Errorf("an ambiguous id: %d %s", code, stderr)
	}
	if code, _, stderr := cli(t, "ban", a, "--data", data); code != 1 || !strings.Contains(stderr, "needs a reason") {
		t.Errorf("no reason: %d %s", code, stderr)
	}
	ok("unban", b)
	ok("approve", a)
	ok("drain", b, "--reason", "new disk")
	if out := ok("nodes", "--state", "drained"); !strings.Contains(out, b[:8]) || strings.Contains(out, a[:8]+" ") && a[:8] != b[:8] || !strings.Contains(out, "1 node(s), page 1 of 1, admission approve") {
		t.Errorf("nodes: %s", out)
	}
	var page operator.NodePage
	if err := json.Unmarshal([]byte(ok("nodes", a, "--json")), &page); err != nil || len(page.Nodes) != 1 || page.Nodes[0].State != standing.StateBanned || !page.Nodes[0].Approved.Set() {
		t.Errorf("nodes as JSON: %+v, %v", page, err)
	}
	ok("undrain", b)
	ok("disapprove", a)

	account := strings.TrimSpace(ok("accounts", "create", "Ada", "Lovelace"))
	short := account[:8]
	if out := ok("accounts", "grant", short, "12.5", "--ref", "r1", "--reason", "welcome"); !strings.Contains(out, "12.5 credits granted (grant:"+account+":r1)") {
		t.Errorf("grant: %s", out)
	}
	if out := ok("accounts"); !strings.Contains(out, "Ada Lovelace") || !strings.Contains(out, "12.500000") {
		t.Errorf("accounts: %s", out)
	}
	if code, _, _ := cli(t, "accounts", "grant", short, "1e3", "--data", data); code != 1 {
		t.Errorf("a wrong amount: %d", code)
	}
	secret := strings.TrimSpace(ok("keys", "create", short, "laptop", "--budget", "3", "--per-minute", "60"))
	id := secret[:11]
	ok("keys", "limits", short, id, "--budget", "2.5", "--budget-day", "0.5")
	if out := ok("keys", "list", short); !strings.Contains(out, id) || !strings.Contains(out, "2.500000") || !strings.Contains(out, "0.500000") || strings.Contains(out, secret) {
		t.Errorf("keys: %s", out)
	}
	ok("keys", "revoke", short, id, "--reason", "lost")
	ok("correct", "grant:"+account+":r1", "--reason", "twice")
	if out := ok("accounts", "show", short); !strings.Contains(out, "-12.500000") {
		t.Errorf("statement: %s", out)
	}
	ok("accounts", "close", short)
	ok("prices", "add", "--decode-per-mib", "0.002", "--fee-ppm", "1000", "--reason", "r")
	if out := ok("prices"); !strings.Contains(out, "0.002000") || !strings.Contains(out, "now") {
		t.Errorf("prices: %s", out)
	}
	out := ok("log")
	for _, want := range []string{"ban", "unban", "approve", "drain", "grant", "key revoke", "correct", "prices add", "it cheats", "program at 127.0.0.1"} {
		if !strings.Contains(out, want) {
			t.Errorf("the log has no %q: %s", want, out)
		}
	}
	if strings.Contains(out, secret[12:]) || strings.Contains(out, key) {
		t.Error("the log holds a secret")
	}
	if out := ok("log", account); strings.Contains(out, "unban") || !strings.Contains(out, "key add") {
		t.Errorf("log of one: %s", out)
	}
	// A new key holds at once, for the command too.
	if fresh := strings.TrimSpace(ok("operator-key", "--rotate")); fresh == key {
		t.Error("the key did not change")
	}
	ok("nodes")
	for name, args := range map[string][]string{
		"verb": {"accounts", "dance"}, "node": {"ban"}, "keys": {"keys", "list"}, "key": {"keys", "dance", "a", "b"}, "prices": {"prices", "dance"}, "figure": {"prices", "add", "--fee-ppm", "x"},
	} {
		if code, _, stderr := cli(t, append(args, "--data", data)...); code != 2 {
			t.Errorf("%s: %d %s", name, code, stderr)
		}
	}
}

// TestOperatorOverTLS: the commands know the tracker by its certificate, whatever
// name stands in it.
func TestOperatorOverTLS(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	cert, key := certificate(t)
	running(t, data, "--tls-cert", cert, "--tls-key", key)
	if out := mustRun(t, "nodes", "--data", data); !strings.Contains(out, "0 node(s)") {
		t.Errorf("nodes: %s", out)
	}
	at := operator.Local{}
	path := filepath.Join(data, "tracker.local")
	raw, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(raw, &at) != nil {
		t.Fatal(err)
	}
	at.CertSHA256 = strings.Repeat("0", 64)
	if raw, err = json.Marshal(at); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := cli(t, "nodes", "--data", data); code != 1 || !strings.Contains(stderr, "another certificate") {
		t.Errorf("a stranger's certificate: %d %s", code, stderr)
	}
}

func TestOperatorWithoutTracker(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if code, _, stderr := cli(t, "nodes", "--data", data); code != 1 || !strings.Contains(stderr, "no tracker has run") {
		t.Errorf("an empty folder: %d %s", code, stderr)
	}
	if code, _, stderr := cli(t, "nodes", "--data", filepath.Join(data, "none")); code != 1 || !strings.Contains(stderr, "data_folder") {
		t.Errorf("no folder: %d %s", code, stderr)
	}
	if key := mustRun(t, "operator-key", "--data", data); !strings.HasPrefix(key, "nop-") {
		t.Errorf("key %q", key)
	}
	if err := os.WriteFile(filepath.Join(data, "tracker.local"), []byte(`{"url":"http://127.0.0.1:1/"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := cli(t, "nodes", "--data", data); code != 1 || !strings.Contains(stderr, "does it run?") {
		t.Errorf("a stopped tracker: %d %s", code, stderr)
	}
}
