package agent

import (
	"context"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/prefs"
)

// Kinds of notifications.
const (
	kindPanel  = "panel"
	kindEngine = "engine"
	kindHealth = "health"
	kindOrder  = "order"
)

// trouble notifies of what needs the user and is new: an engine that is given
// up, and errors among the engine's health entries.
func (a *Agent) trouble(ctx context.Context, s link.State) {
	now := map[string]bool{}
	if s.Phase == link.Absent && s.Err != nil && s.Err.Code != protocol.CodeUnavailable {
		now[kindEngine] = true
		if !a.troubles[kindEngine] {
			text, remedy := a.words.Code(s.Err.Code, s.Err.Message)
			a.notify(ctx, kindEngine, a.words.T("tray.engine_failed_title"), join(text, remedy))
		}
	}
	if s.Phase == link.Connected {
		for _, h := range s.Event.Status.Health {
			if h.Severity != localapi.SeverityError {
				continue
			}
			key := kindHealth + string(h.Code)
			now[key] = true
			if !a.troubles[key] {
				text, remedy := a.words.Code(h.Code, h.Text)
				a.notify(ctx, key, a.words.T("tray.attention_title"), join(text, remedy))
			}
		}
	}
	a.troubles = now
}

// failed tells that an order came to nothing.
func (a *Agent) failed(ctx context.Context, err error) {
	a.o.Logger.Warn("an order has failed", "error", err)
	if ctx.Err() != nil {
		return
	}
	e := protocol.AsError(err)
	text, remedy := a.words.Code(e.Code, e.Message)
	a.notify(ctx, kindOrder+string(e.Code), a.words.T("tray.order_failed_title"), join(text, remedy))
}

// noPanel says, the first time, that no icon can be shown, and opens the window
// instead. Later a line in the log is enough: whoever starts Neuron again sees
// the window.
func (a *Agent) noPanel(ctx context.Context) {
	const question = "no_panel"
	a.o.Logger.Warn("nothing on this desktop shows tray icons; starting Neuron again shows the window")
	if a.o.Prefs.Get().Asked[question] {
		return
	}
	if err := a.o.Prefs.Update(func(p *prefs.Prefs) { p.Asked[question] = true }); err != nil {
		a.o.Logger.Warn("preferences cannot be written", "error", err)
	}
	a.notify(ctx, kindPanel, a.words.T("tray.no_panel_title"), a.words.T("tray.no_panel"))
	if a.o.Hidden {
		a.openWindow(ctx)
	}
}

func (a *Agent) notify(ctx context.Context, kind, title, text string) {
	if !a.o.Prefs.Get().Notify {
		return
	}
	a.do(ctx, func(limited context.Context) func() {
		if _, err := a.o.Notifier.Show(limited, kind, title, text); err != nil {
			a.o.Logger.Info("no notification", "kind", kind, "error", err)
		}
		return nil
	})
}

func join(text, remedy string) string {
	if remedy == "" {
		return text
	}
	return text + " " + remedy
}
