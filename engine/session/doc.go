// Package session is the driver of route sessions: it asks the tracker for a
// lease, opens the session on every hop, feeds the prompt and the sampled
// tokens into hop 0, takes the tokens from the tail, and releases everything
// at the end. It implements gateway.Backend.
//
// The engine's composition owns the Manager; only the gateway calls it. The
// package sees hops, tracker and tokenizer through the small interfaces in
// ports.go and knows neither HTTP nor TLS nor llama.cpp. It never chooses or
// repairs a route: a failure ends the session with its reason (invariant 9).
//
// Locks: Manager.mu may be held while generation.mu is taken, and either while
// the hub's is; never the other way round.
package session
