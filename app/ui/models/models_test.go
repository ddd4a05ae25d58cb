package models_test

import (
	"testing"

	"neuron/app/enginetest"
	"neuron/app/ui/models"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

func open(t *testing.T, e *enginetest.Engine, mode theme.Mode, lang string, width float32) *uitest.Desk {
	t.Helper()
	return uitest.Open(t, e, mode, lang, width, 1000, func(env *page.Env) page.Page { return models.New(env) })
}

func TestLooks(t *testing.T) {
	uitest.Looks(t, "models", func(t *testing.T, mode theme.Mode, lang string, width float32) *uitest.Desk {
		return open(t, enginetest.Catalog(t), mode, lang, width)
	}, func(d *uitest.Desk) bool { return uitest.Button(d.Window, d.Env.Words.T("models.chat")) != nil })
}

func TestHoldAndChat(t *testing.T) {
	e := enginetest.Catalog(t)
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
	e := enginetest.Catalog(t)
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
