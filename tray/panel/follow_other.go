//go:build !linux

package panel

import (
	"context"
	"log/slog"
)

// Follow tells that there is one, and waits for the end of ctx.
func Follow(ctx context.Context, _ *slog.Logger, tell func(Sight)) error {
	tell(There)
	<-ctx.Done()
	return nil
}
