package gatewaytest

import (
	"strings"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
)

// Scripted is a fake that answers what APISuite and the clients ask: a call
// where the request's grammar is one of calls, JSON where it is one of JSON,
// else a sentence.
func Scripted() *Fake {
	f := New()
	f.Context = 8192
	f.Script = func(r gateway.GenerateRequest) Script {
		pieces := []string{"Neuron ", "joins ", "comp", "uters, \xe2", "\x82", "\xac and ", "all."}
		switch g := r.Sampler.Grammar; {
		case strings.Contains(g, "get_weather"):
			pieces = []string{"<tool_call>\n{\"name\": \"get_weather\"", ", \"arguments\": {\"city\": \"Os", "lo\", \"days\": 3}}", "\n</tool_call>"}
		case g != "":
			pieces = []string{`{"city":`, ` "Oslo",`, ` "days":3}`}
		}
		s := Script{Endless: r.Sampler.IgnoreEOG}
		for i, p := range pieces {
			tok := protocol.Token{ID: int32(i), Piece: []byte(p), Logprob: -0.25}
			for k := range r.Sampler.Top {
				tok.Top = append(tok.Top, protocol.TokenProb{ID: int32(k), Piece: []byte{byte('a' + k)}, Logprob: float32(-k - 1)})
			}
			s.Tokens = append(s.Tokens, tok)
		}
		return s
	}
	return f
}
