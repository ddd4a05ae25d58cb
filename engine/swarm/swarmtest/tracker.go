package swarmtest

import (
	"net/http/httptest"
	"testing"

	"neuron/engine/swarm/swarmtest/announce"
)

// Tracker is a BitTorrent tracker of a test.
type Tracker struct {
	*announce.Tracker
	URL string
}

// StartTracker runs a tracker that ends with the test.
func StartTracker(t testing.TB) *Tracker {
	tr := announce.New()
	srv := httptest.NewServer(tr)
	t.Cleanup(srv.Close)
	return &Tracker{tr, srv.URL + "/announce"}
}
