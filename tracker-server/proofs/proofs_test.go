package proofs

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/protocol"
	"neuron/tracker-server/store/sqlite"
)

// TestRefusals: hostile and mistaken requests get a coded error; with an empty
// store the list is empty, and a session that is known has no receipts.
func TestRefusals(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	known := protocol.NewSessionID()
	mux := http.NewServeMux()
	Mount(mux, Options{Store: db, Logger: slog.New(slog.DiscardHandler), Known: func(_ context.Context, id protocol.SessionID) error {
		if id == known {
			return nil
		}
		return protocol.Errorf(protocol.CodeSessionUnknown, "session %s is not known", string(id))
	}})
	get := func(method, path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
		return w
	}
	none := strings.Repeat("0", 64)
	for path, want := range map[string]int{
		"/v1/proofs?limit=0": 400, "/v1/proofs?limit=501": 400, "/v1/proofs?before=x": 400, "/v1/proofs?before=-1": 400,
		"/v1/proofs/zz": 400, "/v1/proofs/" + none: 404, "/v1/sessions/x/receipts": 400,
		"/v1/sessions/" + string(protocol.NewSessionID()) + "/receipts": 404,
	} {
		w := get("GET", path)
		var e protocol.Error
		if err := json.Unmarshal(w.Body.Bytes(), &e); err != nil || w.Code != want || e.Code == "" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	for path, want := range map[string]string{
		"/v1/proofs": `{"proofs":[]}`, "/v1/proofs?limit=500&before=9": `{"proofs":[]}`, "/v1/sessions/" + string(known) + "/receipts": `{"receipts":[]}`,
	} {
		if w := get("GET", path); w.Code != 200 || strings.Join(strings.Fields(w.Body.String()), "") != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get("POST", "/v1/proofs"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}
