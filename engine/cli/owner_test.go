package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/accounts"
	"neuron/engine/protocol"
	"neuron/engine/wallet"
)

// TestExportAndRecover runs the programs: a key goes to another folder by a file
// that only its passphrase opens.
func TestExportAndRecover(t *testing.T) {
	t.Parallel()
	a, b, dir := t.TempDir(), t.TempDir(), t.TempDir()
	for _, d := range []string{a, b} {
		if _, err := wallet.Open(d); err != nil {
			t.Fatal(err)
		}
	}
	alice, err := wallet.At(a).Owner()
	if err != nil {
		t.Fatal(err)
	}
	file, pass := filepath.Join(dir, "copy"), filepath.Join(dir, "pass")
	if err := os.WriteFile(pass, []byte("correct horse\nmore\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := func(code int, text string, args ...string) {
		t.Helper()
		out, stderr, status := result(t, "correct horse\n", args...)
		if status != code || !strings.Contains(out+stderr, text) || strings.Contains(out+stderr, "correct horse") {
			t.Errorf("%v: %d\n%s%s", args, status, out, stderr)
		}
	}
	want(exitFail, "no terminal", "owner", "export", "--data", a, file)
	want(exitOK, "The key of owner "+alice.Short(), "owner", "export", "--data", a, "--passphrase-file", pass, file)
	want(exitFail, "exists already", "owner", "export", "--data", a, "--passphrase-file", pass, file)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	want(exitFail, "With --replace", "owner", "recover", "--data", b, "--passphrase-file", pass, file)
	want(exitOK, "is kept in", "owner", "recover", "--data", b, "--passphrase-file", "-", "--replace", file)
	want(exitOK, "already", "owner", "recover", "--data", b, "--passphrase-file", "-", file)
	want(exitFail, "(forbidden)", "owner", "recover", "--data", b, "--passphrase-file", file, file)
	want(exitFail, "not an exported owner key", "owner", "recover", "--data", b, "--passphrase-file", pass, pass)
	if got, err := wallet.At(b).Owner(); err != nil || got != alice {
		t.Errorf("%s, %v", got, err)
	}
	// Nobody to ask: no engine, and no tracker that is known.
	empty := filepath.Join(dir, "empty")
	for _, args := range [][]string{{"owner", "show"}, {"earnings"}, {"keys", "list"}, {"owner", "pair"}} {
		want(exitFail, "no engine is running", append(args, "--data", empty)...)
	}
	want(exitFail, "without a tracker", "keys", "list", "--data", a)
	if _, err := os.Stat(empty); err == nil {
		t.Error("a question made a folder")
	}
}

func TestEditLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"hello\r": "hello", "hello\nmore": "hello", "hellü\x7fo\n": "hello", "\x7f\x08a\n": "a", "wrong\x15right\r": "right", "end": "end", "x\x04y": "x",
	} {
		if got, err := editLine(strings.NewReader(in)); err != nil || string(got) != want {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	if _, err := editLine(strings.NewReader("abc\x03")); protocol.AsError(err).Code != protocol.CodeCancelled {
		t.Errorf("Ctrl-C: %v", err)
	}
}

func TestCredits(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{"0": 0, "1": 1_000_000, "0.5": 500_000, "12.000001": 12_000_001, "8000000000000": 8_000_000_000_000_000_000} {
		got, err := parseCredits("--budget", in)
		if err != nil || got != want {
			t.Errorf("%q: %d, %v", in, got, err)
		}
		if back, err := parseCredits("--budget", credits(got)); err != nil || back != got {
			t.Errorf("%d prints as %s", got, credits(got))
		}
	}
	for _, in := range []string{"", ".5", "1.", "-1", "+1", "1e3", "1.0000001", "1.-5", "9000000000000", "99999999999999999999"} {
		if got, err := parseCredits("--budget", in); err == nil {
			t.Errorf("%q is %d", in, got)
		}
	}
	for in, want := range map[int64]string{-1: "-0.000001", -9_223_372_036_854_775_808: "-9223372036854.775808", 1_500_000: "1.500000"} {
		if got := credits(in); got != want {
			t.Errorf("%d: %s", in, got)
		}
	}
}

func TestKeyThatPays(t *testing.T) {
	good := "nk-abcdefgh-" + strings.Repeat("a2", 26)
	path := filepath.Join(t.TempDir(), "key")
	for content, ok := range map[string]bool{good + "\n": true, good: true, "": false, "nk-0123456789abcdef": false, good + "x": false, strings.ToUpper(good): false} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := payKey(path)
		if ok != (err == nil) || ok && got != good {
			t.Errorf("%q: %q, %v", content, got, err)
		}
		if s := strings.TrimSpace(content); err != nil && s != "" && strings.Contains(err.Error(), s) {
			t.Errorf("the error shows the key: %v", err)
		}
	}
	t.Setenv(payEnv, good)
	if got, err := payKey(""); err != nil || got != good {
		t.Errorf("%q, %v", got, err)
	}
	t.Setenv(payEnv, "")
	if got, err := payKey(""); err != nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
	if accounts.CheckKey(good) != nil {
		t.Error("not a key")
	}
}
