package web

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"neuron/tracker-server/web/browsertest"
)

func serve(t *testing.T, n *network) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(Handler(n, func() time.Time { return t0 }, prometheus.NewRegistry()))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// TestLooks opens the pages at the widths of a phone, a small window and a
// large one, in both themes: nothing may stick out or break the policy.
// NEURON_SCREENSHOTS=FOLDER writes what it sees.
func TestLooks(t *testing.T) {
	b := browsertest.Start(t)
	for name, n := range map[string]*network{"empty": {}, "full": full(), "hostile": hostile()} {
		s := serve(t, n)
		paths := map[string]string{"": "/"}
		if name != "empty" {
			paths["-nodes"] = "/nodes"
		}
		for _, width := range []int{360, 800, 1400} {
			for _, dark := range []bool{false, true} {
				if name == "hostile" && (dark || width == 800) {
					continue // what is said changes no colour
				}
				theme := "light"
				if dark {
					theme = "dark"
				}
				for suffix, path := range paths {
					p := b.Open(s.URL+path, browsertest.View{Width: width, Height: 900, Dark: dark})
					var over int
					p.Eval("document.documentElement.scrollWidth - innerWidth", &over)
					if over > 0 {
						t.Errorf("%s%s at %d: %d pixels too wide", name, suffix, width, over)
					}
					if list := p.Troubles(); len(list) > 0 {
						t.Errorf("%s%s: %q", name, suffix, list)
					}
					p.Shot(fmt.Sprintf("%s%s-%d-%s", name, suffix, width, theme))
					p.Close()
				}
			}
		}
	}
}
