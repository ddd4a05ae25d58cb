package gatewaytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"
)

// Shared finds a file of the test inputs that are not part of this repository;
// "" when it is not there.
func Shared(name string) string {
	dir := os.Getenv("NEURON_SHARED")
	for at, _ := os.Getwd(); dir == "" && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			dir = filepath.Join(at, "..", "shared")
		}
	}
	path := filepath.Join(dir, "testdata", name)
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	return path
}

// openAPI is OpenAI's published description of its API.
const openAPI = "openai/openapi.transformed.yml"

// schemas are the compiled parts of the description that our answers are
// checked against; loaded once.
var schemas = sync.OnceValues(func() (map[string]*jsonschema.Schema, error) {
	path := Shared(openAPI)
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	root := modern(doc).(map[string]any)
	// The description says that plain completions always have a reason; its own
	// streams have null until the last event.
	choice := dig(root, "components", "schemas", "CreateCompletionResponse", "properties", "choices", "items", "properties")
	choice["finish_reason"] = map[string]any{"enum": []any{"stop", "length", "content_filter", nil}}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", root); err != nil {
		return nil, err
	}
	out := map[string]*jsonschema.Schema{}
	for _, name := range []string{"CreateChatCompletionResponse", "CreateChatCompletionStreamResponse", "CreateCompletionResponse", "ErrorResponse", "ListModelsResponse", "Model",
		"CreateChatCompletionRequest"} {
		if out[name], err = c.Compile("openapi.json#/components/schemas/" + name); err != nil {
			return nil, err
		}
	}
	return out, nil
})

func dig(v map[string]any, path ...string) map[string]any {
	for _, p := range path {
		v, _ = v[p].(map[string]any)
	}
	return v
}

// modern turns OpenAPI 3.0's nullable into JSON Schema, and what YAML reads
// into what JSON would.
func modern(v any) any {
	switch x := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(x))
		for k, e := range x {
			out[k] = modern(e)
		}
		if out["nullable"] == true {
			delete(out, "nullable")
			return map[string]any{"anyOf": []any{out, map[string]any{"type": "null"}}}
		}
		return out
	case []any:
		for i := range x {
			x[i] = modern(x[i])
		}
	case int:
		return json.Number(fmt.Sprint(x))
	case float64:
		raw, _ := json.Marshal(x)
		return json.Number(raw)
	}
	return v
}

// Checked wraps a gateway's handler: every JSON answer and every event of a
// stream is held against OpenAI's description, and telemetry against ours. It
// says so when OpenAI's is not there.
func Checked(t testing.TB, next http.Handler) http.Handler {
	t.Helper()
	all, err := schemas()
	if err != nil {
		t.Fatalf("OpenAI's description: %v", err)
	}
	if all == nil {
		t.Logf("NOT CHECKED against OpenAI's description: no shared testdata/%s (set NEURON_SHARED)", openAPI)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			next.ServeHTTP(w, r)
			return
		}
		tee := &tee{ResponseWriter: w, status: http.StatusOK}
		defer func() {
			checkSnapshots(t, r, tee)
			if all != nil {
				checkAnswer(t, all, r, tee)
			}
		}()
		next.ServeHTTP(tee, r)
	})
}

// tee keeps a copy of an answer.
type tee struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
}

func (w *tee) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *tee) Write(b []byte) (int, error) {
	w.body.Write(b)
	return w.ResponseWriter.Write(b)
}

func (w *tee) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func checkAnswer(t testing.TB, all map[string]*jsonschema.Schema, r *http.Request, w *tee) {
	name := ""
	switch path := r.URL.Path; {
	case path == "/health" || path == "/metrics" || strings.HasPrefix(path, "/v1/sessions") && w.status < 400:
		return
	case path == "/v1/models":
		name = "ListModelsResponse"
	case strings.HasPrefix(path, "/v1/models/"):
		name = "Model"
	case path == "/v1/chat/completions":
		name = "CreateChatCompletionResponse"
	case path == "/v1/completions":
		name = "CreateCompletionResponse"
	}
	kind := w.Header().Get("Content-Type")
	switch {
	case strings.HasPrefix(kind, "text/event-stream"):
		if name == "CreateChatCompletionResponse" {
			name = "CreateChatCompletionStreamResponse"
		}
		whole, _, _ := cutLast(w.body.String(), "\n\n") // the client may have left in the middle
		for _, block := range strings.Split(whole, "\n\n") {
			data, ok := strings.CutPrefix(block, "data: ")
			if !ok || data == "[DONE]" {
				continue
			}
			if strings.HasPrefix(data, `{"error"`) {
				checkJSON(t, all["ErrorResponse"], "ErrorResponse", data)
				continue
			}
			checkJSON(t, all[name], name, data)
		}
	case w.status == http.StatusNoContent || w.body.Len() == 0:
	case w.status >= 400:
		checkJSON(t, all["ErrorResponse"], "ErrorResponse", w.body.String())
	default:
		checkJSON(t, all[name], name, w.body.String())
	}
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return "", s, false
	}
	return s[:i], s[i+len(sep):], true
}

func checkJSON(t testing.TB, s *jsonschema.Schema, name, text string) {
	if s == nil {
		t.Errorf("no schema for %.300s", text)
		return
	}
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err == nil {
		err = s.Validate(v)
	}
	if err != nil {
		t.Errorf("an answer is no %s: %v\n%.600s", name, err, text)
	}
}
