package gatewaytest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gorilla/websocket"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"neuron/engine/protocol"
)

// Document reads docs/api.md, where the API is described.
func Document() ([]byte, error) {
	at, err := os.Getwd()
	for ; err == nil && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, none := os.Stat(filepath.Join(at, "go.mod")); none == nil {
			return os.ReadFile(filepath.Join(at, "docs", "api.md"))
		}
	}
	return nil, errors.Join(errors.New("the repository was not found"), err)
}

// SnapshotSchema finds the JSON Schema of a snapshot in the document.
func SnapshotSchema(document []byte) ([]byte, error) {
	for _, block := range bytes.Split(document, []byte("```json\n"))[1:] {
		text, _, _ := bytes.Cut(block, []byte("```"))
		if bytes.Contains(text, []byte(`"$schema"`)) {
			return text, nil
		}
	}
	return nil, errors.New("docs/api.md has no JSON Schema")
}

// snapshots is the documented schema; compiled once.
var snapshots = sync.OnceValues(func() (*jsonschema.Schema, error) {
	doc, err := Document()
	if err != nil {
		return nil, err
	}
	text, err := SnapshotSchema(doc)
	if err != nil {
		return nil, err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema in docs/api.md: %w", err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("snapshot.json", v); err != nil {
		return nil, err
	}
	return c.Compile("snapshot.json")
})

// CheckSnapshot holds one snapshot against the documented schema.
func CheckSnapshot(t testing.TB, text string) {
	t.Helper()
	s, err := snapshots()
	if err != nil {
		t.Fatal(err)
	}
	checkJSON(t, s, "documented snapshot", text)
}

// checkSnapshots finds the snapshots in an answer and checks them.
func checkSnapshots(t testing.TB, r *http.Request, w *tee) {
	t.Helper()
	switch path, body := r.URL.Path, w.body.String(); {
	case w.status >= 400:
	case strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
		whole, _, _ := cutLast(body, "\n\n") // the client may have left in the middle
		for _, block := range strings.Split(whole, "\n\n") {
			if data, ok := strings.CutPrefix(block, "event: neuron.telemetry\ndata: "); ok {
				CheckSnapshot(t, data)
			}
		}
	case path == "/v1/sessions":
		checkAll(t, body, "data")
	case strings.HasPrefix(path, "/v1/sessions/"):
		CheckSnapshot(t, body)
	case strings.HasSuffix(path, "/completions"):
		var answer struct {
			Neuron json.RawMessage `json:"neuron"`
		}
		if err := json.Unmarshal([]byte(body), &answer); err == nil && answer.Neuron != nil {
			checkAll(t, string(answer.Neuron), "sessions")
		}
	}
}

// checkAll checks the snapshots in a list of an object, and the one that is its
// telemetry.
func checkAll(t testing.TB, text, list string) {
	t.Helper()
	var object map[string]json.RawMessage
	var all []json.RawMessage
	err := json.Unmarshal([]byte(text), &object)
	if raw, ok := object[list]; ok && err == nil {
		err = json.Unmarshal(raw, &all)
	}
	if err != nil {
		t.Errorf("%v in %.300s", err, text)
	}
	if one, ok := object["telemetry"]; ok {
		all = append(all, one)
	}
	for _, raw := range all {
		CheckSnapshot(t, string(raw))
	}
}

// watched looks at a session in all three ways while it runs, and at what they
// say in the end.
func watched(t *testing.T, a API) {
	body := a.Body(`,"stream":true,"ignore_eos":true,"neuron":{"telemetry":true}`)
	resp := a.Post(t.Context(), t, "/chat/completions", body)
	defer resp.Body.Close()
	id := resp.Header.Get("X-Neuron-Session")
	if resp.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("%d, session %q", resp.StatusCode, id)
	}
	if tm := a.Telemetry(t, id); string(tm.Session) != id {
		t.Errorf("by its id: %+v", tm)
	}
	conn, answer, err := websocket.DefaultDialer.DialContext(t.Context(), "ws"+strings.TrimPrefix(a.URL, "http")+"/sessions/"+id+"/watch",
		http.Header{"Authorization": {"Bearer " + a.Key}})
	if err != nil {
		t.Fatalf("%v, %+v", err, answer)
	}
	defer conn.Close()
	read := make(chan error, 1)
	go func() { // the stream must not hold the session up
		_, err := new(bytes.Buffer).ReadFrom(resp.Body)
		read <- err
	}()
	var last protocol.Telemetry
	messages := 0
	for {
		_, raw, e := conn.ReadMessage()
		if e != nil {
			err = e
			break
		}
		CheckSnapshot(t, string(raw))
		var tm protocol.Telemetry
		if err := json.Unmarshal(raw, &tm); err != nil {
			t.Fatal(err)
		}
		if messages++; tm.Seq < last.Seq || string(tm.Session) != id {
			t.Errorf("%+v after %+v", tm, last)
		}
		last = tm
	}
	if !websocket.IsCloseError(err, websocket.CloseNormalClosure) || last.Phase != protocol.PhaseDone || last.Tokens == 0 {
		t.Errorf("%v after %+v", err, last)
	}
	if a.Real && (messages < 3 || len(last.Route) == 0) { // the fake may be done before
		t.Errorf("%d messages, at last %+v", messages, last)
	}
	if err := <-read; err != nil {
		t.Error(err)
	}
	if tm := a.Telemetry(t, id); tm.Phase != protocol.PhaseDone || tm.Tokens != last.Tokens {
		t.Errorf("in the end: %+v", tm)
	}
}
