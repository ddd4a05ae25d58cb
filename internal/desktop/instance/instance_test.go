package instance

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
)

func take(t *testing.T, data, kind string) *Instance {
	t.Helper()
	i, err := Take(data, kind)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(i.Close)
	return i
}

func codeOf(err error) protocol.Code {
	if err == nil {
		return ""
	}
	return protocol.AsError(err).Code
}

// hear waits for a word.
func hear(t *testing.T, i *Instance) string {
	t.Helper()
	select {
	case w := <-i.Heard():
		return w
	case <-time.After(10 * time.Second):
		t.Fatal("no word came")
		return ""
	}
}

func TestSecondLaunchGivesAWord(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	if Running(data, Window) {
		t.Error("runs before it was started")
	}
	if err := Send(t.Context(), data, Window, Show); codeOf(err) != protocol.CodeNotFound {
		t.Errorf("a word to nobody: %v", err)
	}
	first := take(t, data, Window)
	if _, err := Take(data, Window); codeOf(err) != protocol.CodeAlreadyRunning {
		t.Errorf("two windows: %v", err)
	}
	tray := take(t, data, Tray) // another kind is another process
	if !Running(data, Window) || !Running(data, Tray) {
		t.Error("does not run")
	}
	for _, w := range []string{Show, Quit, Restart, Open("/models/a b&c.gguf"), Open("")} {
		if err := Send(t.Context(), data, Window, w); err != nil {
			t.Fatal(err)
		}
		if got := hear(t, first); got != w {
			t.Errorf("heard %q, not %q", got, w)
		}
	}
	if got, ok := Opened(Open("/models/a b\n&c.gguf")); !ok || got != "/models/a b\n&c.gguf" {
		t.Errorf("%q, %v", got, ok)
	}
	for _, w := range []string{Show, "open:%", "open: ", "open:a b", "open:" + strings.Repeat("a", maxTarget+1)} {
		if got, ok := Opened(w); ok {
			t.Errorf("%.20q opens %.20q", w, got)
		}
	}
	if len(tray.Heard()) != 0 {
		t.Error("the tray heard the window's word")
	}
	if err := Send(t.Context(), data, Window, "format"); codeOf(err) != protocol.CodeInvalidRequest {
		t.Errorf("another word: %v", err)
	}
	first.Close()
	first.Close()
	if Running(data, Window) {
		t.Error("runs after its end")
	}
	if err := Send(t.Context(), data, Window, Show); codeOf(err) != protocol.CodeNotFound {
		t.Errorf("a word after the end: %v", err)
	}
	take(t, data, Window)
}

// What a crashed process left behind stops nobody.
func TestStaleFilesAreRemoved(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	f := filesOf(data, Tray)
	if err := os.MkdirAll(filepath.Dir(f.lock), 0o700); err != nil {
		t.Fatal(err)
	}
	stale, err := json.Marshal(address{Network: "unix", Address: f.socket, Token: strings.Repeat("ab", tokenBytes)})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{f.lock: "", f.address: string(stale), f.socket: "was a socket"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := Send(t.Context(), data, Tray, Show); codeOf(err) != protocol.CodeNotFound {
		t.Errorf("a word to a process that crashed: %v", err)
	}
	i := take(t, data, Tray)
	if err := Send(t.Context(), data, Tray, Show); err != nil || hear(t, i) != Show {
		t.Error(err)
	}
}

func TestLongPathOfData(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), strings.Repeat("long", 30))
	i := take(t, data, Tray)
	if err := Send(t.Context(), data, Tray, Quit); err != nil || hear(t, i) != Quit {
		t.Error(err)
	}
	a, err := readAddress(filesOf(data, Tray).address)
	if err != nil {
		t.Fatal(err)
	}
	i.Close()
	if a.Network == "unix" {
		if _, err := os.Stat(filepath.Dir(a.Address)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the short folder %s is left: %v", a.Address, err)
		}
	}
}

func TestOthersCannotReadTheFiles(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: modes are those of Unix")
	}
	data := t.TempDir()
	take(t, data, Tray)
	f := filesOf(data, Tray)
	for _, path := range []string{f.address, f.socket, f.lock} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

// A hostile program learns nothing, changes nothing, and keeps nobody out.
func TestHostileClients(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	i := take(t, data, Tray)
	a, err := readAddress(filesOf(data, Tray).address)
	if err != nil {
		t.Fatal(err)
	}
	dial := func() net.Conn {
		c, err := net.Dial(a.Network, a.Address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	for _, line := range []string{
		"\n", "neuron tray " + strings.Repeat("0", 2*tokenBytes) + " quit\n", "neuron tray  quit\n", "neuron window " + a.Token + " quit\n",
		"neuron tray " + a.Token + " format\n", "neuron tray " + a.Token + " quit quit\n", "neuron tray " + a.Token + " quit\x00\n",
		"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", strings.Repeat("x", 10*maxLine) + "\n",
	} {
		c := dial()
		c.SetDeadline(time.Now().Add(10 * time.Second))
		c.Write([]byte(line)) // may be refused in the middle
		var b [1]byte
		if n, err := c.Read(b[:]); n != 0 || err == nil {
			t.Errorf("%.40q was answered with %q", line, b[:n])
		}
	}
	if len(i.Heard()) != 0 {
		t.Errorf("heard %q", <-i.Heard())
	}
	// All places taken by silent clients: a word gets through once they are over.
	for range 3 * maxTalks {
		dial()
	}
	var sent error
	for range 10 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		sent = Send(ctx, data, Tray, Show)
		cancel()
		if sent == nil {
			break
		}
	}
	if sent != nil || hear(t, i) != Show {
		t.Errorf("the word was lost: %v", sent)
	}
}

func TestCloseDoesNotWaitForClients(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	i := take(t, data, Tray)
	a, err := readAddress(filesOf(data, Tray).address)
	if err != nil {
		t.Fatal(err)
	}
	c, err := net.Dial(a.Network, a.Address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	began := time.Now()
	i.Close()
	if d := time.Since(began); d >= talk {
		t.Errorf("closing took %v", d)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add("neuron tray 00 show\n")
	f.Add("neuron tray 00 open:neuron%3A%2F%2Fjoin\n")
	f.Fuzz(func(t *testing.T, line string) {
		if w, ok := parseLine(line, Tray, "00"); ok && line != "neuron tray 00 "+w+"\n" {
			t.Errorf("%q is taken for %q", line, w)
		}
	})
}

func FuzzParseAddress(f *testing.F) {
	f.Add([]byte(`{"network":"tcp","address":"127.0.0.1:1","token":"00112233445566778899aabbccddeeff"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := parseAddress(b)
		if err != nil {
			return
		}
		if a.Network == "tcp" {
			host, _, err := net.SplitHostPort(a.Address)
			if err != nil || !net.ParseIP(host).IsLoopback() {
				t.Errorf("would speak to %s", a.Address)
			}
		} else if a.Network != "unix" || !filepath.IsAbs(a.Address) {
			t.Errorf("would speak to %s %s", a.Network, a.Address)
		}
	})
}
