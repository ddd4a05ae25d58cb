// Package opening asks what is to become of what was handed to Neuron to open:
// a model's file of this computer, or an invitation to a network.
//
// app/window.go makes one. Both come from outside, so nothing happens before the
// user agrees; internal/desktop/opening reads them.
package opening

import (
	"context"
	"errors"
	"path/filepath"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/viewmodel/task"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/desktop/opening"
)

// Opener shows the questions. Its methods are called on the UI goroutine.
type Opener struct {
	env   *page.Env
	tasks *task.Group
}

// New makes an Opener; Close ends what it has begun.
func New(env *page.Env) *Opener { return &Opener{env: env, tasks: task.New()} }

// Close waits for orders on their way.
func (o *Opener) Close() { o.tasks.Close() }

// Open asks about a target: the absolute path of a model's file, or an address.
func (o *Opener) Open(target string) {
	w := o.env.Words
	t, err := opening.Parse(target, "")
	switch {
	case err != nil:
		o.tell(w.T("opening.failed"), err)
	case t.Model != "":
		o.env.Open("models")
		name := filepath.Base(t.Model)
		kit.Confirm(o.env.Window, w.T("opening.model_title"), w.T("opening.model_text", "Name", name), w.T("opening.model_yes"), w.T("opening.no"), false, func() {
			o.do(w.T("opening.model_done", "Name", name), func(ctx context.Context, c *localapi.Client) error {
				return c.Hold(ctx, localapi.Hold{Model: t.Model})
			})
		})
	default:
		kit.Confirm(o.env.Window, w.T("opening.network_title"), w.T("opening.network_text", "Address", t.Tracker), w.T("opening.network_yes"), w.T("opening.no"), false, func() {
			o.do(w.T("opening.network_done", "Address", t.Tracker), func(ctx context.Context, c *localapi.Client) error {
				first, err := join(ctx, c, t.Tracker)
				if err == nil && first {
					// The questions of the first start have begun with another answer.
					o.env.Do(o.env.Reopen)
				}
				return err
			})
		})
	}
}

// engine is what joining needs; *localapi.Client is it.
type engine interface {
	Settings(ctx context.Context) (policy.Settings, error)
	SetSettings(ctx context.Context, s policy.Settings) (policy.Settings, error)
}

// join changes the network's address and nothing else; first says that the
// questions of the first start are not answered yet.
func join(ctx context.Context, c engine, tracker string) (first bool, err error) {
	for attempt := 0; ; attempt++ {
		s, err := c.Settings(ctx)
		if err != nil {
			return false, err
		}
		s = s.Clone()
		s.Tracker = tracker
		_, err = c.SetSettings(ctx, s)
		if attempt > 0 || !errors.Is(err, &protocol.Error{Code: protocol.CodeConflict}) {
			return !s.SetUp, err
		}
	}
}

// do carries out what was agreed to, and says what came of it.
func (o *Opener) do(done string, f func(context.Context, *localapi.Client) error) {
	o.tasks.Go(func(ctx context.Context) {
		var err error = protocol.Errorf(protocol.CodeUnavailable, "the engine does not run")
		if c := o.env.Link.Client(); c != nil {
			err = f(ctx, c)
		}
		if ctx.Err() != nil && err != nil {
			return // the window closes
		}
		o.env.Do(func() { o.tell(done, err) })
	})
}

// tell shows how it went: done, or the error.
func (o *Opener) tell(done string, err error) {
	w := o.env.Words
	d := &kit.Dialog{Title: done}
	if e := protocol.AsError(err); e != nil {
		text, remedy := w.Code(e.Code, e.Message)
		d.Title, d.Text = text, remedy
	}
	ok := kit.Primary(w.T("opening.ok"), d.Close)
	d.Buttons = append(d.Buttons, ok)
	d.Open(o.env.Window)
}
