package apiclient

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
)

const (
	done  = "data: [DONE]\n\n"
	stop  = `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n"
	hello = `data: {"choices":[{"delta":{"content":"Hel"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"lo"}}]}` + "\n\n"
)

func telemetry(session string, seq int) string {
	return fmt.Sprintf("event: neuron.telemetry\ndata: {\"session\":%q,\"seq\":%d,\"phase\":\"decode\"}\n\n", session, seq)
}

func TestRead(t *testing.T) {
	t.Parallel()
	type want struct {
		Text, Finish string
		Deltas       int
		Snapshots    int
		Logprobs     int
		Code         protocol.Code
	}
	for name, c := range map[string]struct {
		in   string
		want want
	}{
		"plain":              {hello + stop + done, want{Text: "Hello", Finish: "stop", Deltas: 2}},
		"carriage returns":   {strings.ReplaceAll(hello+stop+done, "\n", "\r\n"), want{Text: "Hello", Finish: "stop", Deltas: 2}},
		"no space":           {strings.ReplaceAll(hello+stop+done, "data: ", "data:"), want{Text: "Hello", Finish: "stop", Deltas: 2}},
		"comments":           {": keep-alive\n\n" + hello + ":\n\n" + stop + ": x\n" + done, want{Text: "Hello", Finish: "stop", Deltas: 2}},
		"other fields":       {"id: 7\nretry: 10\n" + hello + stop + done, want{Text: "Hello", Finish: "stop", Deltas: 2}},
		"nothing follows":    {hello + stop + done + hello, want{Text: "Hello", Finish: "stop", Deltas: 2}},
		"no text":            {stop + done, want{Finish: "stop"}},
		"role and usage":     {`data: {"choices":[{"delta":{"role":"assistant"}}]}` + "\n\n" + hello + stop + `data: {"choices":[],"usage":{"total_tokens":3}}` + "\n\n" + done, want{Text: "Hello", Finish: "stop", Deltas: 2}},
		"null fields":        {`data: {"choices":[{"delta":{"content":null},"finish_reason":null,"logprobs":null}],"error":null}` + "\n\n" + stop + done, want{Finish: "stop"}},
		"telemetry":          {telemetry("s-a", 1) + hello + telemetry("s-a", 2) + stop + done, want{Text: "Hello", Finish: "stop", Deltas: 2, Snapshots: 2}},
		"event ends":         {"event: neuron.telemetry\n\n" + hello + stop + done, want{Text: "Hello", Finish: "stop", Deltas: 2}},
		"logprobs":           {`data: {"choices":[{"delta":{"content":"x"},"logprobs":{"content":[{"token":"x"},{"token":""}]}}]}` + "\n\n" + stop + done, want{Text: "x", Finish: "stop", Deltas: 1, Logprobs: 2}},
		"error":              {hello + `data: {"error":{"message":"m","code":"stage_lost","hop":1,"phase":"decode"}}` + "\n\n", want{Code: protocol.CodeStageLost}},
		"error, no code":     {`data: {"error":{"message":"m"}}` + "\n\n", want{Code: protocol.CodeUnavailable}},
		"error, then done":   {`data: {"error":{"message":"m","code":"kv_budget"}}` + "\n\n" + stop + done, want{Code: protocol.CodeKVBudget}},
		"empty":              {"", want{Code: protocol.CodeAnswerBroken}},
		"broken off":         {hello, want{Code: protocol.CodeAnswerBroken}},
		"finished, no done":  {hello + stop, want{Code: protocol.CodeAnswerBroken}},
		"done, unfinished":   {hello + done, want{Code: protocol.CodeAnswerBroken}},
		"no JSON":            {"data: {\n\n" + done, want{Code: protocol.CodeUnavailable}},
		"telemetry, no JSON": {"event: neuron.telemetry\ndata: [1]\n\n" + stop + done, want{Code: protocol.CodeUnavailable}},
		"wrong types":        {`data: {"choices":{}}` + "\n\n" + stop + done, want{Code: protocol.CodeUnavailable}},
		"endless line":       {"data: " + strings.Repeat("x", maxLine), want{Code: protocol.CodeAnswerBroken}},
		"a page":             {"<html>\n<body>Bad gateway</body>\n", want{Code: protocol.CodeAnswerBroken}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var a Answer
			var got want
			deltas := ""
			err := a.read(strings.NewReader(c.in), func(protocol.Telemetry) { got.Snapshots++ }, func(d string) { deltas += d })
			if err != nil {
				got = want{Code: protocol.AsError(err).Code}
				if a.Text != "" {
					t.Errorf("an error and the text %q", a.Text)
				}
			} else {
				got.Text, got.Finish, got.Deltas, got.Logprobs = a.Text, a.Finish, a.Deltas, len(a.Logprobs)
				if deltas != a.Text {
					t.Errorf("deltas %q, text %q", deltas, a.Text)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got):\n%s\n%v", d, err)
			}
		})
	}
}

func TestReadErrorPlace(t *testing.T) {
	t.Parallel()
	var a Answer
	err := a.read(strings.NewReader(`data: {"error":{"message":"the stage process died","code":"stage_lost","hop":1,"phase":"decode"}}`+"\n\n"), nil, nil)
	var e *protocol.Error
	if !errors.As(err, &e) || e.Message != "the stage process died" || e.Hop == nil || *e.Hop != 1 || e.Phase != protocol.PhaseDecode {
		t.Errorf("%+v", e)
	}
	err = a.read(io.MultiReader(strings.NewReader(hello), failing{}), nil, nil)
	if !errors.Is(err, errFailing) || protocol.AsError(err).Code != protocol.CodeAnswerBroken {
		t.Errorf("a connection that breaks: %v", err)
	}
}

var errFailing = errors.New("connection reset")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFailing }

// TestRequests looks at what is sent and at how answers that are no streams
// are read.
func TestRequests(t *testing.T) {
	t.Parallel()
	var got struct {
		Path, Key string
		Body      map[string]any
	}
	answer := func(w http.ResponseWriter) {}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Path, got.Key, got.Body = r.URL.Path, r.Header.Get("Authorization"), nil
		if err := json.NewDecoder(r.Body).Decode(&got.Body); err != nil && err != io.EOF {
			t.Error(err)
		}
		answer(w)
	}))
	t.Cleanup(srv.Close)
	c := New(srv.URL+"/v1/", "nk-1")

	seed := uint32(0)
	answer = func(w http.ResponseWriter) {
		w.Header().Set("X-Neuron-Session", "s-head")
		fmt.Fprint(w, hello, stop, done)
	}
	a, err := c.Chat(t.Context(), ChatRequest{Model: "m", Messages: []Message{{Role: "user", Content: "q"}}, Seed: &seed}, nil)
	if err != nil || a.Text != "Hello" || a.Session != "s-head" {
		t.Errorf("%+v, %v", a, err)
	}
	want := map[string]any{
		"model": "m", "messages": []any{map[string]any{"role": "user", "content": "q"}}, "temperature": 0.0, "seed": 0.0,
		"stream": true, "neuron": map[string]any{"telemetry": true},
	}
	if d := cmp.Diff(want, got.Body); d != "" || got.Path != "/v1/chat/completions" || got.Key != "Bearer nk-1" {
		t.Errorf("%s with %q (-want +got):\n%s", got.Path, got.Key, d)
	}

	var out struct{ A int }
	answer = func(w http.ResponseWriter) { fmt.Fprint(w, `{"a":3}`) }
	if _, err := New(srv.URL, "").JSON(t.Context(), http.MethodGet, "/x", nil, &out); err != nil || out.A != 3 || got.Path != "/x" || got.Key != "" || got.Body != nil {
		t.Errorf("%+v, %v, asked %+v", out, err, got)
	}
	for name, x := range map[string]struct {
		status int
		body   string
		code   protocol.Code
		text   string
	}{
		"coded":      {400, `{"error":{"message":"too hot","code":"invalid_request"}}`, protocol.CodeInvalidRequest, "too hot"},
		"no code":    {500, `{"error":{"message":"oops"}}`, protocol.CodeUnavailable, "oops"},
		"other code": {500, `{"error":{"message":"oops","code":500}}`, protocol.CodeUnavailable, "500"},
		"page":       {502, "<html>", protocol.CodeUnavailable, "502"},
		"nothing":    {404, "", protocol.CodeUnavailable, "404"},
		"no object":  {429, `{}`, protocol.CodeUnavailable, "429"},
		"bad answer": {200, `{"a":`, protocol.CodeUnavailable, "malformed"},
	} {
		answer = func(w http.ResponseWriter) { w.WriteHeader(x.status); fmt.Fprint(w, x.body) }
		_, err := c.JSON(t.Context(), http.MethodGet, "/x", nil, &out)
		var e *protocol.Error
		if !errors.As(err, &e) || e.Code != x.code || !strings.Contains(e.Message, x.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzRead feeds the parser with what a hostile gateway may send: it must end,
// and what it calls whole must have an ordered end.
func FuzzRead(f *testing.F) {
	f.Add([]byte(hello + stop + done))
	f.Fuzz(func(t *testing.T, in []byte) {
		var a Answer
		text := ""
		err := a.read(strings.NewReader(string(in)), func(protocol.Telemetry) {}, func(d string) { text += d })
		if err != nil {
			var e *protocol.Error
			if !errors.As(err, &e) || e.Code == "" || a.Text != "" {
				t.Fatalf("%#v with text %q", err, a.Text)
			}
			return
		}
		if a.Text != text || a.Finish == "" || !strings.Contains(string(in), "[DONE]") {
			t.Fatalf("%+v from %q", a, in)
		}
	})
}
