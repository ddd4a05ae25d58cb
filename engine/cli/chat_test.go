package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/cli/apiclient"
	"neuron/engine/program"
	"neuron/engine/protocol"
)

// fakeGateway answers chats with what script gives for the last question. What
// clients sent is in asked.
type fakeGateway struct {
	*httptest.Server
	asked chan []apiclient.Message
}

func newFakeGateway(t *testing.T, script func(w http.ResponseWriter, r *http.Request, question string)) *fakeGateway {
	t.Helper()
	g := &fakeGateway{asked: make(chan []apiclient.Message, 16)}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model    string
			Messages []apiclient.Message
			Stream   bool
		}
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || r.URL.Path != "/v1/chat/completions" || q.Model != "tiny" || !q.Stream {
			t.Errorf("%s %s %+v %v", r.Method, r.URL, q, err)
		}
		if got := r.Header.Get("Authorization"); got != "Bearer nk-test" {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprint(w, `{"error":{"message":"wrong key","code":"unauthorized"}}`)
			return
		}
		g.asked <- q.Messages
		script(w, r, q.Messages[len(q.Messages)-1].Content)
	}))
	t.Cleanup(g.Close)
	return g
}

// stream writes deltas and, with whole, an ordered end.
func stream(w io.Writer, whole bool, deltas ...string) {
	say := func(s string) { fmt.Fprintf(w, "data: %s\n\n", s) }
	for _, d := range deltas {
		raw, _ := json.Marshal(d)
		say(`{"choices":[{"delta":{"content":` + string(raw) + `}}]}`)
	}
	if !whole {
		return
	}
	say(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`)
	fmt.Fprintf(w, "event: neuron.telemetry\n")
	say(`{"phase":"done","tokens":7,"tokens_per_second":41.6,"route":[{"hop":0},{"hop":1}]}`)
	say("[DONE]")
}

func echo(w http.ResponseWriter, _ *http.Request, question string) {
	stream(w, true, "You ", "said: ", question)
}

func (g *fakeGateway) args(more ...string) []string {
	return append([]string{"chat", "--api", g.URL + "/v1", "--key", "nk-test", "--model", "tiny"}, more...)
}

func TestChatQuestion(t *testing.T) {
	t.Parallel()
	g := newFakeGateway(t, echo)
	stdout, stderr, status := result(t, "", g.args("--system", "Be brief.", "two", "words")...)
	if want := "You said: two words\n[7 tokens, 42 tokens/s, 2 hops]\n"; status != exitOK || stdout != want || stderr != "" {
		t.Errorf("status %d, %q, stderr %q, want %q", status, stdout, stderr, want)
	}
	want := []apiclient.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "two words"}}
	if d := cmp.Diff(want, <-g.asked); d != "" {
		t.Errorf("asked (-want +got):\n%s", d)
	}
}

// TestChatFindsGateway reads address, key and model from the data folder.
func TestChatFindsGateway(t *testing.T) {
	t.Parallel()
	g := newFakeGateway(t, echo)
	data := t.TempDir()
	raw, err := json.Marshal(program.Endpoint{URL: g.URL + "/v1", Key: "nk-test", Models: []string{"tiny", "other"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(data, "gateway"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(data, "gateway", "gateway.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{data, filepath.Join(data, "gateway")} {
		if stdout, stderr, status := result(t, "", "chat", "--data", dir, "Hi"); status != exitOK || !strings.HasPrefix(stdout, "You said: Hi\n") {
			t.Errorf("status %d, %q, %q", status, stdout, stderr)
		}
	}
}

// TestChatFailures wants every answer that is not whole to be an error.
func TestChatFailures(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script func(http.ResponseWriter, *http.Request, string)
		stdout string
		code   protocol.Code
	}{
		"stream ends": {func(w http.ResponseWriter, _ *http.Request, _ string) { stream(w, false, "Half an") }, "Half an\n", protocol.CodeAnswerBroken},
		"connection breaks": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			stream(w, false, "Half an")
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, "Half an\n", protocol.CodeAnswerBroken},
		"error in the stream": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			stream(w, false, "Half an")
			fmt.Fprint(w, `data: {"error":{"message":"the stage process died","code":"stage_lost","hop":1,"phase":"decode"}}`+"\n\n")
		}, "Half an\n", protocol.CodeStageLost},
		"refused": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"error":{"message":"layers 4-8 are missing","code":"no_route"}}`)
		}, "", protocol.CodeNoRoute},
		"no JSON": {func(w http.ResponseWriter, _ *http.Request, _ string) { fmt.Fprint(w, "data: {\n\n") }, "", protocol.CodeUnavailable},
		"a proxy's page": {func(w http.ResponseWriter, _ *http.Request, _ string) {
			w.WriteHeader(http.StatusBadGateway)
			fmt.Fprint(w, "<html>")
		}, "", protocol.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			g := newFakeGateway(t, c.script)
			stdout, stderr, status := result(t, "", g.args("Hi")...)
			if status != exitFail || stdout != c.stdout || !strings.Contains(stderr, "("+string(c.code)+")") || !strings.Contains(stderr, c.code.Remedy()) {
				t.Errorf("status %d, %q, stderr %q", status, stdout, stderr)
			}
			// In a conversation the next question is asked all the same.
			stdout, stderr, status = result(t, "Hi\nagain\n", g.args()...)
			if status != exitOK || strings.Count(stdout, "["+string(c.code)+": ") != 2 || stderr != "" {
				t.Errorf("conversation: status %d, %q, stderr %q", status, stdout, stderr)
			}
		})
	}
	g := newFakeGateway(t, echo)
	if _, stderr, status := result(t, "", "chat", "--api", g.URL+"/v1", "--key", "wrong", "--model", "tiny", "Hi"); status != exitFail ||
		!strings.Contains(stderr, "(unauthorized)") || strings.Contains(stderr, "nk-test") {
		t.Errorf("wrong key: %d %q", status, stderr)
	}
}

func TestChatConversation(t *testing.T) {
	t.Parallel()
	g := newFakeGateway(t, func(w http.ResponseWriter, r *http.Request, q string) {
		if q == "fail" {
			stream(w, false, "x")
			return
		}
		echo(w, r, q)
	})
	stdout, stderr, status := result(t, "one\nfail\ntwo\n\nnever asked\n", g.args()...)
	if status != exitOK || stderr != "" || !strings.HasPrefix(stdout, "Talking to tiny.") || !strings.Contains(stdout, "> You said: two\n") {
		t.Errorf("status %d, %q, stderr %q", status, stdout, stderr)
	}
	one := []apiclient.Message{{Role: "user", Content: "one"}, {Role: "assistant", Content: "You said: one"}}
	user := func(s string) apiclient.Message { return apiclient.Message{Role: "user", Content: s} }
	for i, want := range [][]apiclient.Message{one[:1], {one[0], one[1], user("fail")}, {one[0], one[1], user("two")}} {
		if d := cmp.Diff(want, <-g.asked); d != "" {
			t.Errorf("question %d (-want +got):\n%s", i, d)
		}
	}
	if n := len(g.asked); n != 0 {
		t.Errorf("%d more questions", n)
	}
	if _, stderr, status = result(t, strings.Repeat("x", maxInput+1), g.args()...); status != exitFail || !strings.Contains(stderr, "(invalid_request)") {
		t.Errorf("a line that is too long: %d %q", status, stderr)
	}
}

// TestChatHarmless wants no text of the network to steer the terminal.
func TestChatHarmless(t *testing.T) {
	t.Parallel()
	g := newFakeGateway(t, func(w http.ResponseWriter, _ *http.Request, _ string) {
		stream(w, true, "a\x1b[2Jb\u009b\r", "\x07\tc\nd é 漢")
	})
	stdout, _, status := result(t, "", g.args("Hi")...)
	if want := "a[2Jb\tc\nd é 漢\n"; status != exitOK || !strings.HasPrefix(stdout, want) {
		t.Errorf("status %d, %q", status, stdout)
	}
}

// TestChatInterrupt stops an answer, asks on, and ends at the prompt.
func TestChatInterrupt(t *testing.T) {
	t.Parallel()
	g := newFakeGateway(t, func(w http.ResponseWriter, r *http.Request, q string) {
		if q != "endless" {
			echo(w, r, q)
			return
		}
		stream(w, false, "On and on")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	c := command(t, g.args()...)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(out)
	until := func(end string) {
		t.Helper()
		var seen strings.Builder
		for !strings.HasSuffix(seen.String(), end) {
			b, err := r.ReadByte()
			if err != nil {
				t.Fatalf("%v after %q, want %q", err, seen.String(), end)
			}
			seen.WriteByte(b)
		}
	}
	until("> ")
	fmt.Fprintln(in, "endless")
	until("On and on")
	c.Process.Signal(syscall.SIGINT)
	until("[cancelled: the answer was stopped: stopped by the user]\n\n> ")
	fmt.Fprintln(in, "next")
	until("You said: next\n[7 tokens, 42 tokens/s, 2 hops]\n\n> ")
	c.Process.Signal(syscall.SIGINT)
	if err := c.Wait(); err != nil {
		t.Errorf("the end at the prompt: %v", err)
	}

	// One question alone: an answer that was stopped is no success.
	c = command(t, g.args("endless")...)
	if out, err = c.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	r = bufio.NewReader(out)
	until("On and on")
	c.Process.Signal(syscall.SIGINT)
	if err := c.Wait(); c.ProcessState.ExitCode() != exitFail {
		t.Errorf("a stopped answer: %v", err)
	}
}

// TestReadLines leaves no line behind when nobody reads on.
func TestReadLines(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	lines := readLines(ctx, strings.NewReader("a\nb\n"))
	if l := <-lines; l.text != "a" || l.err != nil {
		t.Errorf("%+v", l)
	}
	cancel()
	for range lines { // "b" may be on its way; then the channel closes
	}
}
