package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/desktop/instance"
	"neuron/internal/desktop/launch"
)

// quitTime bounds the end of all programs: a little more than the tray gives the
// window and the engine.
const quitTime = 90 * time.Second

// quit ends all programs of the data folder; those that replace or remove the
// programs ask for it. The status is 0 when none runs any more, 1 otherwise.
func quit(ctx context.Context, data string, stderr io.Writer, limit time.Duration) int {
	data, err := filepath.Abs(data)
	if err != nil {
		fmt.Fprintln(stderr, "neuron-tray: the data folder:", err)
		return 1
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := (&launch.Programs{Data: data}).EndAll(ctx); err != nil {
		fmt.Fprintln(stderr, "neuron-tray:", err)
		return 1
	}
	return 0
}

// restart gives the tray of the data folder the word to start anew. The status
// is 0 when it has heard it, and when none runs.
func restart(ctx context.Context, data string, stderr io.Writer) int {
	data, err := filepath.Abs(data)
	if err == nil {
		err = instance.Send(ctx, data, instance.Tray, instance.Restart)
	}
	if err != nil && !errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
		fmt.Fprintln(stderr, "neuron-tray:", err)
		return 1
	}
	return 0
}
