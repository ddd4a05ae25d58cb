package gateway_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
)

// recordings finds OpenAI's recorded streams, which are not in this repository.
func recordings(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("NEURON_SHARED")
	for at, _ := os.Getwd(); dir == "" && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			dir = filepath.Join(at, "..", "shared")
		}
	}
	dir = filepath.Join(dir, "testdata", "openai", "streams")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("SKIPPED: no recorded streams in %s (set NEURON_SHARED)", dir)
	}
	return dir
}

// paths lists where a JSON value has what type; object keys joined by dots,
// list elements as [].
func paths(v any, at string, into map[string]string) {
	switch x := v.(type) {
	case map[string]any:
		into[at] = "object"
		for k, e := range x {
			paths(e, at+"."+k, into)
		}
	case []any:
		into[at] = "list"
		for _, e := range x {
			paths(e, at+".[]", into)
		}
	case string:
		into[at] = "string"
	case float64:
		into[at] = "number"
	case bool:
		into[at] = "bool"
	default:
		if _, known := into[at]; !known {
			into[at] = "null"
		}
	}
}

func streamPaths(t *testing.T, body string) map[string]string {
	t.Helper()
	into := map[string]string{}
	for _, e := range events(body) {
		if e.name != "" || e.data == "[DONE]" {
			continue
		}
		var v any
		if err := json.Unmarshal([]byte(e.data), &v); err != nil {
			t.Fatal(err)
		}
		paths(v, "", into)
	}
	return into
}

// TestStreamShape compares our stream with recorded ones of OpenAI: whatever
// we send exists there with the same type, and what clients rely on is there.
func TestStreamShape(t *testing.T) {
	t.Parallel()
	dir := recordings(t)
	for _, tc := range []struct{ file, more string }{
		{"83b060bae42e.sse", `,"logprobs":true`},
		{"4cc50a6135d2.sse", `,"max_tokens":1`},
		{"a491adda08c3.sse", `,"n":3`},
	} {
		raw, err := os.ReadFile(filepath.Join(dir, tc.file))
		if err != nil {
			t.Fatal(err)
		}
		want := streamPaths(t, string(raw))
		f := gatewaytest.New()
		f.Script = func(gateway.GenerateRequest) gatewaytest.Script {
			return gatewaytest.Script{Tokens: []protocol.Token{{ID: 1, Piece: []byte("Foo"), Logprob: -0.25}, {ID: 2, Piece: []byte("!"), Logprob: -0.5}}}
		}
		_, srv := serve(t, f, nil)
		_, body := post(t, srv, "/v1/chat/completions", chatBody(`,"stream":true,"stream_options":{"include_usage":true}`+tc.more))
		got := streamPaths(t, body)
		for path, kind := range got {
			if w, ok := want[path]; !ok || w != kind && kind != "null" {
				t.Errorf("%s: we send %s as %s, recorded is %q", tc.file, path, kind, w)
			}
		}
		for path := range want {
			if strings.Contains(path, "fingerprint") || strings.Contains(path, "refusal") || strings.Contains(path, "_details") {
				continue // optional, and nothing of ours
			}
			if _, ok := got[path]; !ok {
				t.Errorf("%s: %s is recorded, ours lacks it", tc.file, path)
			}
		}
	}
}
