package network_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"neuron/app/enginetest"
	vm "neuron/app/viewmodel/network"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

func model(t *testing.T, e *enginetest.Engine) *vm.Model {
	t.Helper()
	l := link.New(link.Options{Data: e.Data})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	changed, stop := l.Watch()
	go func() { defer close(done); l.Run(ctx) }()
	t.Cleanup(func() { stop(); cancel(); <-done })
	for limit := time.After(20 * time.Second); l.State().Phase != link.Connected; {
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("no connection: %+v", l.State())
		}
	}
	m := vm.New(vm.Options{
		Engine: func() vm.Engine {
			if c := l.Client(); c != nil {
				return c
			}
			return nil
		},
		State: l.State, Words: words.New("en"), Now: time.Now, Every: 25 * time.Millisecond,
	})
	t.Cleanup(m.Close)
	return m
}

func until(t *testing.T, m *vm.Model, what string, ok func(vm.View) bool) vm.View {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		v := m.View()
		if ok(v) {
			return v
		}
		select {
		case <-m.Changed():
		case <-limit:
			t.Fatalf("%s: not in %+v", what, v)
		}
	}
}

func TestModels(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) {
		s.Network = localapi.Network{Nodes: 3, Sessions: 1, Asked: time.Now(), Models: []localapi.NetworkModel{
			{Info: protocol.ModelInfo{Model: "a", Name: "Alpha", Layers: 4, Context: 2048, Replicas: []int{2, 2, 3, 2}, Routable: true}, Bytes: 5e6, License: "MIT", Local: &protocol.Range{First: 1, Last: 3}},
			{Info: protocol.ModelInfo{Model: "b", Name: "Beta", Layers: 4, Replicas: []int{1, 0, 0, 1}}, Private: true},
			{Info: protocol.ModelInfo{Model: "c", Name: "Gamma", Layers: 2, Replicas: []int{0, 0}}},
		}}
	})
	m := model(t, e)
	if v := m.View(); v.Stage != vm.Loading {
		t.Errorf("before anything was asked: stage %d", v.Stage)
	}
	m.Follow(vm.Plans)
	v := until(t, m, "models", func(v vm.View) bool { return len(v.Models) == 3 })
	for i, want := range []string{"at least 2 computers", "2 layers are held by no computer, the first is layer 1", "No computer holds any"} {
		if !strings.Contains(v.Models[i].Coverage, want) {
			t.Errorf("%s: %q", v.Models[i].Name, v.Models[i].Coverage)
		}
	}
	if a := v.Models[0]; !strings.Contains(a.LocalText, "1 to 2") || !strings.Contains(a.Text, "4 layers") || !strings.Contains(a.Text, "MIT") || v.Answering != "1 of 3" || !v.Models[1].Private {
		t.Errorf("%+v, %+v", a, v)
	}
	e.With(func(s *enginetest.State) {
		s.Plans = []localapi.Plan{
			{Model: "a", Ranges: []localapi.PlanRange{{Range: protocol.Range{Last: 1}, Weights: 1}}},
			{Model: "b", Ranges: []localapi.PlanRange{{Range: protocol.Range{First: 12, Last: 20}, Weights: 6_349 << 20, KVPerToken: 13_120}}},
			{Model: "c"},
		}
	})
	m.Follow(vm.Plans)
	v = until(t, m, "what would fit", func(v vm.View) bool { return len(v.Models) == 3 && v.Models[2].Fits != "" })
	if want := "Here, layers 12 to 19 would take 6.2\u00a0GB and 410\u00a0MB per 32K conversation."; v.Models[0].Fits != "" || v.Models[1].Fits != want || !strings.Contains(v.Models[2].Fits, "Nothing") {
		t.Errorf("%q, %q, %q", v.Models[0].Fits, v.Models[1].Fits, v.Models[2].Fits)
	}
	m.Filter(" BET ")
	if v := until(t, m, "a filter", func(v vm.View) bool { return len(v.Models) == 1 }); v.Models[0].Name != "Beta" || !v.Filtered {
		t.Errorf("%+v", v)
	}
	// What was told stays when the network is away, and says so.
	e.With(func(s *enginetest.State) { s.Err = protocol.Errorf(protocol.CodeUnavailable, "away") })
	until(t, m, "an error beside the list", func(v vm.View) bool { return v.Err != nil && len(v.Models) == 1 && v.Stage == vm.Ready })
	m.Hold("b", "Beta")
	until(t, m, "a refused order", func(v vm.View) bool { return v.Problem != nil && v.Held == "" })
	e.With(func(s *enginetest.State) { s.Err = nil })
	m.Hold("b", "Beta")
	until(t, m, "an order", func(v vm.View) bool { return v.Problem == nil && v.Held == "Beta" && v.Err == nil })
	m.Rest()
	e.With(func(s *enginetest.State) { s.Network.Nodes = 99 })
	if v := m.View(); v.Nodes == "99" {
		t.Error("it asks although nobody looks")
	}
}

// TestStatusPageIsNoWebsocket: the engine tells where its control channel is,
// which no browser can open.
func TestStatusPageIsNoWebsocket(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t)
	m := model(t, e)
	for told, want := range map[string]string{
		"wss://tracker.example/v1/nodes": "https://tracker.example", "ws://127.0.0.1:7700/v1/nodes": "http://127.0.0.1:7700", "https://tracker.example": "https://tracker.example", "": "",
	} {
		e.With(func(s *enginetest.State) { s.Status.Tracker.URL = told })
		for limit := time.Now().Add(20 * time.Second); m.View().Connection.URL != want; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(limit) {
				t.Fatalf("%q is shown as %q, not %q", told, m.View().Connection.URL, want)
			}
		}
	}
}

func TestFailsBeforeAnything(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) { s.Err = protocol.Errorf(protocol.CodeUnavailable, "away") })
	m := model(t, e)
	m.Follow(vm.Plans)
	until(t, m, "the failure", func(v vm.View) bool { return v.Stage == vm.Failed && v.Err != nil })
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/sessions" || r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusTeapot)
			return
		}
		w.Write([]byte(`{"object":"list","data":[
			{"session":"s-abcdefghijklmnop","model_name":"guide","phase":"decode","tokens":1,"tokens_per_second":12.5,"first_token_ms":80,
			 "route":[{"hop":0,"node":"aaaaaaaaaaaaaaaa","use":{"first":0,"last":4},"health":"ok","counters":{"decode_steps":4,"decode_us":10000}},
			          {"hop":1,"node":"bbbbbbbbbbbbbbbb","use":{"first":4,"last":8},"health":"slow","counters":{}}]},
			{"session":"s-2","model_name":"guide","phase":"failed","error":{"code":"hop_lost","message":"x"}}]}`))
	}))
	t.Cleanup(api.Close)
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) { s.Access = localapi.Access{URL: api.URL + "/v1", Key: "k"} })
	m := model(t, e)
	m.Follow(vm.Routes)
	v := until(t, m, "routes", func(v vm.View) bool { return len(v.Routes) == 2 })
	r := v.Routes[0]
	if len(r.Hops) != 2 || r.Hops[0].Time != "2.5 ms" || r.Hops[0].Layers != "0 to 3" || r.Hops[1].Time != "" || r.Hops[1].Health != protocol.HealthSlow {
		t.Errorf("%+v", r)
	}
	for _, want := range []string{"1 token ", "12.5 tokens per second", "80 ms"} {
		if !strings.Contains(r.Text+" ", want) {
			t.Errorf("%q lacks %q", r.Text, want)
		}
	}
	if v.Routes[1].Err == nil {
		t.Error("the error of a conversation is lost")
	}
}
