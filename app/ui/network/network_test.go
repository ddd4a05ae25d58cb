package network_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"fyne.io/fyne/v2"

	"neuron/app/enginetest"
	"neuron/app/ui/network"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// lively is an engine of a network with models.
func lively(t *testing.T) *enginetest.Engine {
	t.Helper()
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) {
		replicas := func(n, first, last int) []int {
			out := make([]int, n)
			for i := range out {
				out[i] = 1 + i%3
				if i >= first && i < last {
					out[i] = 0
				}
			}
			return out
		}
		s.Network = localapi.Network{Nodes: 128, Sessions: 17, Asked: time.Now(), Models: []localapi.NetworkModel{
			{Info: protocol.ModelInfo{Model: "a", Name: "Qwen3 8B Instruct Q4_K_M", Layers: 36, Context: 40960, Replicas: replicas(36, 0, 0), Routable: true}, Bytes: 5_030_000_000, License: "Apache-2.0", Local: &protocol.Range{First: 6, Last: 18}},
			{Info: protocol.ModelInfo{Model: "b", Name: "DeepSeek V4 Flash", Layers: 43, Context: 131072, Replicas: replicas(43, 20, 26)}, Bytes: 158_000_000_000, License: "MIT"},
			{Info: protocol.ModelInfo{Model: "c", Name: "Our own tune of a model with quite a long name for one line", Layers: 8, Replicas: replicas(8, 0, 8)}, Private: true},
		}}
		s.Access = localapi.Access{URL: "http://127.0.0.1:8555/v1", Key: "sk-secret-key"}
	})
	return e
}

const sessions = `{"data":[
	{"session":"s-k2x7abcdefgh","model_name":"Qwen3 8B Instruct Q4_K_M","phase":"decode","tokens":211,"tokens_per_second":14.2,"first_token_ms":840,
	 "route":[{"hop":0,"node":"n4k2vq6m7yb3jw5xh2fd","use":{"first":0,"last":12},"health":"ok","counters":{"decode_steps":211,"decode_us":4200000}},
	          {"hop":1,"node":"q7w3mmv6m7yb3jw5xh2f","use":{"first":12,"last":30},"health":"slow","counters":{"decode_steps":211,"decode_us":9900000}},
	          {"hop":2,"node":"z2k9ppv6m7yb3jw5xh2f","use":{"first":30,"last":36},"health":"ok","counters":{"decode_steps":211,"decode_us":2100000}}]},
	{"session":"s-9dd2abcdefgh","model_name":"guide","phase":"failed","tokens":3,"error":{"code":"hop_lost","message":"x"},
	 "route":[{"hop":0,"node":"n4k2vq6m7yb3jw5xh2fd","use":{"first":0,"last":8},"health":"lost","counters":{}}]}]}`

func open(t *testing.T, e *enginetest.Engine, mode theme.Mode, lang string, width float32) *uitest.Desk {
	t.Helper()
	if e != nil {
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(sessions)) }))
		t.Cleanup(api.Close)
		e.With(func(s *enginetest.State) { s.Access.URL = api.URL + "/v1" })
	}
	uitest.App(t, mode)
	d := uitest.New(t, e, lang)
	p := network.New(d.Env)
	t.Cleanup(p.Close)
	d.Set(p.Content(), width, 1200)
	p.Show()
	t.Cleanup(p.Hide)
	return d
}

func TestLooks(t *testing.T) {
	for _, mode := range uitest.Themes {
		for _, lang := range []string{"en", "de"} {
			for _, width := range []float32{560, 1000} {
				name := fmt.Sprintf("%v-%s-%v", mode, lang, width)
				t.Run(name, func(t *testing.T) {
					d := open(t, lively(t), mode, lang, width)
					d.Until("routes", func() bool { return uitest.Says(d.Window, "n4k2vq6m") })
					d.Picture("network-" + name)
				})
			}
		}
	}
}

// TestKeyIsCovered: the key is shown when it is asked for, and covered again.
func TestKeyIsCovered(t *testing.T) {
	d := open(t, lively(t), theme.Dark, "en", 1000)
	d.Until("the access", func() bool { return uitest.Button(d.Window, "Show the key") != nil })
	if uitest.Says(d.Window, "sk-secret-key") {
		t.Error("the key can be read")
	}
	d.Tap("Show the key")
	d.Until("the key", func() bool { return uitest.Says(d.Window, "sk-secret-key") })
	d.Tap("Hide the key")
	d.Until("no key", func() bool { return !uitest.Says(d.Window, "sk-secret-key") })
	d.Tap("Copy the key")
	if got := strings.TrimSpace(fyne.CurrentApp().Clipboard().Content()); got != "sk-secret-key" {
		t.Errorf("copied %q", got)
	}
}

func TestWithoutAnEngine(t *testing.T) {
	d := open(t, nil, theme.Light, "en", 900)
	d.Until("it says so", func() bool { return uitest.Button(d.Window, "Start") != nil })
	d.Picture("network-absent")
}
