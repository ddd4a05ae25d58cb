package gateway

import "net/http"

// Drain begins an ordered end: requests for answers are refused with code
// shutdown, those that wait for their turn too, and the running ones go on;
// what only looks is still served. The channel is closed when no answer is
// under way. Drain may be called again; Close ends what remains.
func (g *Gateway) Drain() <-chan struct{} {
	g.drain.Refuse()
	return g.drain.Drained
}

// Answers is the number of requests for answers under way, waiting ones
// included.
func (g *Gateway) Answers() int {
	n, _ := g.drain.State()
	return n
}

// work counts a request for an answer from its arrival to its last byte.
func (g *Gateway) work(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !g.drain.Enter() {
			writeError(w, errShutdown, 0)
			return
		}
		defer g.drain.Leave()
		h(w, r)
	}
}
