package network

import (
	"context"
	"errors"
	"fmt"
	"os/exec"

	"neuron/engine/host/source"
)

// Kind runs route and networksetup.
func Kind() source.Source[string] {
	return source.Func[string]{From: "macOS", Ask: func(ctx context.Context) (string, error) {
		out, err := exec.CommandContext(ctx, "/sbin/route", "-n", "get", "default").Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) && ctx.Err() == nil {
			return None, nil // there is no default route
		}
		if err != nil {
			return Unknown, fmt.Errorf("route: %w", err)
		}
		ports, err := exec.CommandContext(ctx, "/usr/sbin/networksetup", "-listallhardwareports").Output()
		if err != nil {
			return Unknown, fmt.Errorf("networksetup: %w", err)
		}
		return parsePorts(string(ports), parseRoute(string(out))), nil
	}}
}
