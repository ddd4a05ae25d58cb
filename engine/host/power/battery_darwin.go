package power

import (
	"context"
	"fmt"
	"os/exec"

	"neuron/engine/host/source"
)

// Battery runs pmset.
func Battery() source.Source[State] {
	return source.Func[State]{From: "macOS", Ask: func(ctx context.Context) (State, error) {
		out, err := exec.CommandContext(ctx, "/usr/bin/pmset", "-g", "batt").Output()
		if err != nil {
			return State{}, fmt.Errorf("pmset: %w", err)
		}
		return parsePmset(string(out))
	}}
}
