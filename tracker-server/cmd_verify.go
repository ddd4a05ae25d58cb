package main

import (
	"context"
	"flag"
	"io"

	"neuron/tracker-server/audit"
)

// verifyProofCommand checks the proof of a fault with nothing but its file.
func verifyProofCommand(*flag.FlagSet) runner {
	return func(_ context.Context, args []string, stdout, _ io.Writer) error {
		if len(args) != 1 {
			return &usageError{"name one file with a proof"}
		}
		return audit.RunVerifyProof(args[0], stdout)
	}
}
