package gateway_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
)

// BenchmarkStreamedToken is a token's way from the backend to a client over
// HTTP on loopback, without a session behind it.
func BenchmarkStreamedToken(b *testing.B) {
	for _, telemetry := range []bool{false, true} {
		b.Run(fmt.Sprintf("telemetry=%t", telemetry), func(b *testing.B) {
			f := gatewaytest.New()
			f.Context = protocol.MaxContext
			f.Script = func(gateway.GenerateRequest) gatewaytest.Script {
				return gatewaytest.Script{Pieces: []string{" token"}, Endless: true}
			}
			g := gateway.New(gateway.Options{Backend: f})
			srv := httptest.NewServer(g)
			defer srv.Close()
			b.ReportAllocs()
			const most = 50_000 // fits the context
			for left := b.N; left > 0; left -= most {
				n := min(left, most)
				body := fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"x"}],"stream":true,"max_tokens":%d,"neuron":{"telemetry":%t}}`,
					gatewaytest.ModelName, n, telemetry)
				resp, err := http.Post(srv.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
				if err != nil {
					b.Fatal(err)
				}
				pieces := 0
				for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
					if strings.Contains(lines.Text(), `" token"`) {
						pieces++
					}
				}
				resp.Body.Close()
				if pieces != n {
					b.Fatalf("%d of %d tokens", pieces, n)
				}
			}
		})
	}
}
