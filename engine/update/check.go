package update

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/update/feed"
)

// check reads the list; one check at a time, the others wait for it.
func (k *Keeper) check(ctx context.Context) error {
	select {
	case k.checking <- struct{}{}:
	case <-ctx.Done():
		return protocol.Errorf(protocol.CodeCancelled, "the check was given up: %w", ctx.Err())
	}
	defer func() { <-k.checking }()
	s, _ := k.settings()
	if m := k.missing(s); m != nil {
		return m
	}
	raw, err := k.read(ctx, s.Feed)
	if ctx.Err() != nil {
		return protocol.Errorf(protocol.CodeCancelled, "the check was given up: %w", ctx.Err())
	}
	wait := spread(dayWait, daySpread)
	var lost *lostError
	if errors.As(err, &lost) {
		wait = spread(lostWait, lostSpread)
	}
	now := time.Now()
	if err == nil {
		err = k.take(s, raw, now)
	}
	told := protocol.AsError(err)
	k.mu.Lock()
	k.memory.Next, k.memory.Feed, k.memory.Channel = now.Add(wait), s.Feed, s.Channel
	k.err, k.refused = told, told != nil && told.Code == protocol.CodeUpdateInvalid
	if err == nil {
		k.memory.Checked = now
	}
	next := k.memory.Next
	k.mu.Unlock()
	if err != nil {
		k.o.Logger.Warn("The list of releases was not taken; nothing was changed", "code", string(told.Code), "error", err, "next", next)
		raw = nil
	}
	k.remember(raw)
	wake(k.poke)
	k.o.Changed()
	if told != nil {
		return told
	}
	return nil
}

// take believes a list, or says why not.
func (k *Keeper) take(s Settings, raw []byte, now time.Time) error {
	f, err := feed.Parse(raw, k.o.Keys)
	if err != nil {
		return err
	}
	sum := sumOf(raw)
	k.mu.Lock()
	defer k.mu.Unlock()
	was := k.memory.Seen[s.Channel]
	if err := f.Accept(s.Channel, was, sum, now); err != nil {
		return err
	}
	k.memory.Seen[s.Channel] = feed.Seen{Serial: f.Serial, Version: f.Version, SHA256: sum}
	r := &release{feed: f, base: s.Feed, channel: s.Channel, pack: f.Find(k.o.OS, k.o.Arch, k.o.Kind)}
	same := k.found != nil && k.found.pack != nil && r.pack != nil && k.found.pack.SHA256 == r.pack.SHA256
	if !same {
		k.ready, k.done = false, 0
	}
	if k.found == nil || k.found.feed.Version != f.Version {
		k.o.Logger.Info("The list of releases was read", "version", f.Version, "serial", f.Serial, "newer", feed.Newer(f.Version, k.o.Version))
	}
	k.found = r
	return nil
}

// tidy removes packages that are of no use any more, and looks at the one that
// was fetched before.
func (k *Keeper) tidy(ctx context.Context) {
	k.mu.Lock()
	r := k.found
	if r != nil && (r.pack == nil || !feed.Newer(r.feed.Version, k.o.Version)) {
		r = nil
	}
	k.mu.Unlock()
	keep := map[string]bool{stateFile: true, feedFile: true}
	if r != nil {
		keep[r.pack.Name], keep[partName(r.pack)] = true, true
	}
	entries, err := os.ReadDir(k.o.Dir)
	if err != nil {
		return // there is none yet, or remember says what is wrong
	}
	for _, e := range entries {
		if keep[e.Name()] || e.IsDir() {
			continue
		}
		if err := os.Remove(filepath.Join(k.o.Dir, e.Name())); err != nil {
			k.o.Logger.Warn("An old package could not be removed", "error", err)
		}
	}
	if r == nil {
		return
	}
	size, good := int64(0), false
	if info, err := os.Stat(k.file(r.pack)); err == nil && info.Size() == r.pack.Size {
		good = verify(ctx, k.file(r.pack), r.pack) == nil
		size = info.Size()
	} else if info, err := os.Stat(k.part(r.pack)); err == nil {
		size = min(info.Size(), r.pack.Size)
	}
	k.mu.Lock()
	if k.found == r {
		k.ready, k.done = good, size
	}
	k.mu.Unlock()
	k.o.Changed()
}
