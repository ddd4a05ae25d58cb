package gateway_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
)

// TestTelemetryWhileRunning: the header asks for it too, the session can be
// read by GET before its first token, and the list and metrics know of it.
func TestTelemetryWhileRunning(t *testing.T) {
	t.Parallel()
	f := gatewaytest.New()
	hold := make(chan struct{})
	f.Script = func(gateway.GenerateRequest) gatewaytest.Script {
		return gatewaytest.Script{Pieces: []string{"x"}, Hold: hold}
	}
	_, srv := serve(t, f, nil)
	get := func(path string) string {
		t.Helper()
		r, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("%s: %d %v", path, r.StatusCode, err)
		}
		return string(raw)
	}
	req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/completions", strings.NewReader(`{"model":"fake/model","prompt":"p","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Neuron-Telemetry", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var tm protocol.Telemetry
	if err := json.Unmarshal([]byte(get("/v1/sessions/"+resp.Header.Get("X-Neuron-Session"))), &tm); err != nil {
		t.Fatal(err)
	}
	if tm.Phase.Ended() || tm.Request != resp.Header.Get("X-Request-Id") || tm.PrefillTotal != 2 {
		t.Errorf("%+v", tm)
	}
	if list := get("/v1/sessions"); !strings.Contains(list, string(tm.Session)) {
		t.Errorf("%s", list)
	}
	if m := get("/metrics"); !strings.Contains(m, "neuron_gateway_running 1") {
		t.Errorf("%s", m)
	}
	close(hold)
	raw, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(raw), "event: neuron.telemetry\n") || !strings.Contains(string(raw), `"text":"x"`) {
		t.Errorf("%s, %v", raw, err)
	}
	if m := get("/metrics"); !strings.Contains(m, `neuron_gateway_tokens_total{kind="completion"} 1`) {
		t.Errorf("%s", m)
	}
}

// TestDocumentedSnapshot: the tables of docs/api.md, its schema and the type
// that is sent name the same fields.
func TestDocumentedSnapshot(t *testing.T) {
	t.Parallel()
	doc, err := gatewaytest.Document()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := gatewaytest.SnapshotSchema(doc)
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var schema struct {
		object
		Defs map[string]object `json:"$defs"`
	}
	if err := json.Unmarshal(raw, &schema); err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "\n## Telemetry\n")
	section, _, _ = strings.Cut(section, "\n```json\n")
	_, section, _ = strings.Cut(section, "| field | meaning |")
	snapshot, counters, found := strings.Cut(section, "| field | meaning |")
	if !found {
		t.Fatal("docs/api.md has no two tables of fields")
	}
	for _, tc := range []struct {
		name   string
		schema map[string]json.RawMessage
		table  string // "": no table of its own
		sent   any
	}{
		{"snapshot", schema.Properties, snapshot, protocol.Telemetry{}},
		{"counters", schema.Defs["counters"].Properties, counters, protocol.Counters{}},
		{"hop", schema.Defs["hop"].Properties, "", protocol.HopTelemetry{}},
		{"error", schema.Defs["error"].Properties, "", protocol.Error{}},
	} {
		want := slices.Sorted(maps.Keys(tc.schema))
		var sent []string
		for f := range reflect.TypeOf(tc.sent).Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				sent = append(sent, name)
			}
		}
		slices.Sort(sent)
		if d := cmp.Diff(want, sent); d != "" {
			t.Errorf("%s: the schema and what is sent (-schema, +sent):\n%s", tc.name, d)
		}
		if tc.table == "" {
			continue
		}
		var listed []string
		for _, line := range strings.Split(tc.table, "\n") {
			cells := strings.Split(line, "|")
			if len(cells) < 3 {
				continue
			}
			for i, part := range strings.Split(cells[1], "`") {
				if i%2 == 1 {
					listed = append(listed, part)
				}
			}
		}
		slices.Sort(listed)
		if d := cmp.Diff(want, listed); d != "" {
			t.Errorf("%s: the schema and the table (-schema, +table):\n%s", tc.name, d)
		}
	}
}
