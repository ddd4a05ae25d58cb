package network_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"fyne.io/fyne/v2"

	"neuron/app/enginetest"
	"neuron/app/ui/network"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
)

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
	return uitest.Open(t, e, mode, lang, width, 1200, func(env *page.Env) page.Page { return network.New(env) })
}

func TestLooks(t *testing.T) {
	uitest.Looks(t, "network", func(t *testing.T, mode theme.Mode, lang string, width float32) *uitest.Desk {
		return open(t, enginetest.Catalog(t), mode, lang, width)
	}, func(d *uitest.Desk) bool { return uitest.Says(d.Window, "n4k2vq6m") })
}

// TestKeyIsCovered: the key is shown when it is asked for, and covered again.
func TestKeyIsCovered(t *testing.T) {
	d := open(t, enginetest.Catalog(t), theme.Dark, "en", 1000)
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
