// Neuron-releasefeed makes and checks the signed list of a release's packages
// that programs read to learn of newer versions; see docs/protocol/updates.md.
//
//	releasefeed keygen -out release.key
//	releasefeed sign -key release.key -dist dist -version 1.2.0 -out stable.json
//	releasefeed verify -key HEX -dist dist stable.json
//
// The key signs what runs on everybody's computer: it belongs on a computer of
// its own, or on a stick, and not into a repository or a build server.
package main

import (
	"fmt"
	"io"
	"os"
)

const usage = "usage: releasefeed keygen|sign|verify [flags]; each has -help"

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is main with an exit status.
func run(args []string, out, errs io.Writer) int {
	if len(args) == 0 {
		fmt.Fprintln(errs, usage)
		return 2
	}
	commands := map[string]func([]string, io.Writer, io.Writer) error{"keygen": keygen, "sign": sign, "verify": verify}
	do := commands[args[0]]
	if do == nil {
		fmt.Fprintln(errs, usage)
		return 2
	}
	if err := do(args[1:], out, errs); err != nil {
		fmt.Fprintf(errs, "releasefeed %s: %v\n", args[0], err)
		return 1
	}
	return 0
}
