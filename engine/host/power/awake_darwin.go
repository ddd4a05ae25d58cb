package power

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
)

// NewAwake runs caffeinate, which ends by itself with this process.
func NewAwake() *Awake {
	return &Awake{hold: func(context.Context) (func() error, error) {
		cmd := exec.Command("/usr/bin/caffeinate", "-i", "-w", strconv.Itoa(os.Getpid()))
		if err := cmd.Start(); err != nil {
			return nil, fmt.Errorf("caffeinate: %w", err)
		}
		return func() error {
			if err := cmd.Process.Kill(); err != nil {
				return fmt.Errorf("caffeinate: %w", err)
			}
			cmd.Wait() // it was killed: its error is no news
			return nil
		}, nil
	}}
}
