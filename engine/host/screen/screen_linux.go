package screen

import (
	"context"
	"errors"

	"neuron/engine/host/source"
	"neuron/engine/host/x11"
)

// New asks the X server. On a Wayland desktop it sees X programs alone, as most
// games are: it can say yes there, and not no.
func New(x *x11.Display, wayland bool) source.Source[bool] {
	return source.Func[bool]{From: "X11", Ask: func(ctx context.Context) (bool, error) {
		full, err := x.FullScreen(ctx)
		switch {
		case errors.Is(err, source.ErrNotTold), err == nil && full, !wayland:
			return full, err
		}
		return false, source.NotTold("Wayland does not tell of other programs' windows")
	}}
}
