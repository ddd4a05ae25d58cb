package store

import "context"

// laterKey marks a context, see Later.
type laterKey struct{}

// Later marks work that can wait: a store writes it behind what others wait
// for, such as leases, also when it came before. Whoever marks work hands it
// over in pieces that take some milliseconds at most: others wait for a piece
// that has begun.
func Later(ctx context.Context) context.Context { return context.WithValue(ctx, laterKey{}, true) }

// IsLater reports whether ctx is that of work that can wait.
func IsLater(ctx context.Context) bool { return ctx.Value(laterKey{}) != nil }
