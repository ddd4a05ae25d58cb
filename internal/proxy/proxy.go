// Package proxy is the web proxy of this process and its children: the one that
// the environment names, or one that the user has set, which may change at any
// time. (The standard library reads the environment once.)
//
// Whatever connects to the tracker or downloads in the engine goes through For.
package proxy

import (
	"net/http"
	"net/url"
	"os"
	"sync"

	"golang.org/x/net/http/httpproxy"
)

// names are the variables that Use sets; httpproxy prefers them to those in
// lower case.
var names = [...]string{"HTTP_PROXY", "HTTPS_PROXY"}

var state struct {
	mu sync.Mutex
	// Protected by mu.
	own   map[string]string // the environment's values while another address is in use
	chose func(*url.URL) (*url.URL, error)
}

// Use sends all further connections through address, "" through what the
// environment of this process named at its start. Processes that are started
// from now on inherit it. Connections that stand go on; their owners end them.
func Use(address string) {
	state.mu.Lock()
	defer state.mu.Unlock()
	switch {
	case address != "" && state.own == nil:
		state.own = map[string]string{}
		for _, n := range names {
			if v, ok := os.LookupEnv(n); ok {
				state.own[n] = v
			}
		}
	case address == "" && state.own == nil:
		return
	}
	for _, n := range names {
		// Setenv refuses names alone, and these are good.
		if v, ok := state.own[n]; address == "" && !ok {
			_ = os.Unsetenv(n)
		} else if address == "" {
			_ = os.Setenv(n, v)
		} else {
			_ = os.Setenv(n, address)
		}
	}
	if address == "" {
		state.own = nil
	}
	state.chose = nil
}

// For is a Proxy function of http.Transport and of websocket.Dialer. Loopback
// addresses, and what NO_PROXY names, are reached directly.
func For(r *http.Request) (*url.URL, error) {
	state.mu.Lock()
	if state.chose == nil {
		state.chose = httpproxy.FromEnvironment().ProxyFunc()
	}
	chose := state.chose
	state.mu.Unlock()
	return chose(r.URL)
}
