// Package notify shows a notification of the operating system: one at a time,
// and of each kind at most one in ten minutes.
//
// Tray and window import it; it knows no engine and no texts.
//
//   - Linux: the notification service of the session bus; a new one replaces the
//     one before.
//   - macOS: osascript, which is there on every Mac.
//   - Windows: a balloon of this process's tray icon, which Windows 10 and later
//     show as one of their notifications; see docs/decisions/0015. A process
//     without an icon shows none.
package notify

import (
	"context"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// Every is how often a notification of one kind may be shown.
const Every = 10 * time.Minute

// patience bounds how long the system may take.
const patience = 5 * time.Second

// maxText bounds title and text, in bytes.
const maxText = 500

// Notifier shows notifications. It is safe for concurrent use and has no
// goroutine of its own.
type Notifier struct {
	app  string
	show func(ctx context.Context, app, title, text string, replaces uint32) (uint32, error)
	now  func() time.Time

	mu    sync.Mutex
	shown map[string]time.Time // by kind; guarded by mu
	last  uint32               // the system's number of the last one; guarded by mu
}

// New gives a Notifier for a program of that name, as people see it.
func New(app string) *Notifier {
	return &Notifier{app: app, show: show, now: time.Now, shown: map[string]time.Time{}}
}

// Show shows a notification, unless one of its kind was shown within Every: it
// reports whether it did. It takes up to five seconds. Error: unavailable, where
// the system shows none.
func (n *Notifier) Show(ctx context.Context, kind, title, text string) (bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.now()
	if at, ok := n.shown[kind]; ok && now.Sub(at) < Every {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id, err := n.show(ctx, n.app, cut(title), cut(text), n.last)
	if err != nil {
		return false, protocol.Errorf(protocol.CodeUnavailable, "no notification can be shown: %w", err)
	}
	n.last, n.shown[kind] = id, now
	return true, nil
}

// cut shortens a text at a whole letter.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := 0
	for i := range s {
		if i > maxText-len("…") {
			break
		}
		end = i
	}
	return s[:end] + "…"
}
