package worker

import (
	"slices"
	"time"
)

// trim drops layers that are not wanted while all folders together take more
// than allowed, from the model first that has moved no bytes for longest.
func (w *worker) trim() {
	quota := w.latest.Limits.DiskBytes
	if quota == 0 || time.Since(w.trimmed) < trimPause {
		return
	}
	w.trimmed = time.Now()
	type folder struct {
		m      *model
		op     *opened
		used   int64
		active time.Time
	}
	var all []folder
	over := -quota
	for _, m := range w.models {
		m.mu.Lock()
		op, active := m.open, m.active
		m.mu.Unlock()
		if op == nil || op.adopted {
			continue
		}
		used, err := op.shelf.Used()
		if err != nil {
			w.log.Warn("Space of a folder is not known", "model", m.id.Short(), "error", err)
			continue
		}
		over += used
		all = append(all, folder{m, op, used, active})
	}
	slices.SortFunc(all, func(a, b folder) int { return a.active.Compare(b.active) })
	for _, f := range all {
		if over <= 0 {
			return
		}
		names, err := f.op.shelf.Trim(max(0, f.used-over), f.m.newest().model.Ranges)
		if err != nil {
			w.log.Warn("Layers that are not wanted cannot be dropped", "model", f.m.id.Short(), "error", err)
			continue
		}
		if len(names) == 0 {
			continue
		}
		w.log.Info("Layers dropped to keep within the limit", "model", f.m.id.Short(), "files", len(names))
		f.op.resync()
		if now, err := f.op.shelf.Used(); err == nil {
			over -= f.used - now
		}
	}
}
