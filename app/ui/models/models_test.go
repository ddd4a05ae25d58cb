package models_test

import (
	"fmt"
	"testing"
	"time"

	"neuron/app/enginetest"
	"neuron/app/ui/models"
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

func open(t *testing.T, e *enginetest.Engine, mode theme.Mode, lang string, width float32) *uitest.Desk {
	t.Helper()
	uitest.App(t, mode)
	d := uitest.New(t, e, lang)
	p := models.New(d.Env)
	t.Cleanup(p.Close)
	d.Set(p.Content(), width, 1000)
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
					d.Until("models", func() bool { return uitest.Button(d.Window, d.Env.Words.T("models.chat")) != nil })
					d.Picture("models-" + name)
				})
			}
		}
	}
}

func TestHoldAndChat(t *testing.T) {
	e := lively(t)
	d := open(t, e, theme.Dark, "en", 1000)
	d.Tap("Use in chat")
	if len(d.Opened) != 1 || d.Opened[0] != "chat" {
		t.Errorf("opened %v", d.Opened)
	}
	d.Tap("Hold a part here")
	d.Until("it is ordered", func() bool {
		h := enginetest.Look(e, func(s *enginetest.State) []localapi.Hold { return s.Holds })
		return len(h) == 1 && h[0].Model == "b"
	})
}

func TestNetworkAway(t *testing.T) {
	e := lively(t)
	e.With(func(s *enginetest.State) { s.Err = protocol.Errorf(protocol.CodeUnavailable, "away") })
	d := open(t, e, theme.Light, "en", 900)
	d.Tap("Open settings")
	if len(d.Opened) != 1 || d.Opened[0] != "settings" {
		t.Errorf("opened %v", d.Opened)
	}
	d.Picture("models-away")
}

func TestWithoutAnEngine(t *testing.T) {
	d := open(t, nil, theme.Light, "en", 900)
	d.Until("it says so", func() bool { return uitest.Button(d.Window, "Start") != nil })
	d.Picture("models-absent")
}
