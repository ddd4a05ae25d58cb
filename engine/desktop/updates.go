package desktop

import (
	"path/filepath"

	"neuron/engine/update"
)

// newUpdates looks for newer versions by the settings in force.
func newUpdates(e *Engine) *update.Keeper {
	o := e.o.Updates
	o.Dir = filepath.Join(e.o.Data, UpdateFolder)
	o.Log = filepath.Join(e.o.Data, "logs", "update.out")
	o.Logger = e.o.Log("update")
	o.Settings = func() (update.Settings, <-chan struct{}) {
		s, changed := e.settings.Watch()
		return update.Settings{Check: s.Updates.Check, Feed: s.Updates.Feed, Channel: s.Updates.Channel}, changed
	}
	o.Changed = func() {
		if e.api != nil { // not before the API is there
			e.changed()
		}
	}
	return update.New(o)
}
