// Package program holds the engine's programs as values: Node (holds layers
// and runs sessions' hops) and Gateway (accepts client requests and drives
// routes). Each is built from options, runs until its context ends, and can be
// built by tests with a temporary folder and port 0.
//
// It is the composition: it may import every package of the engine. Only the
// engine's main and end-to-end tests import it.
package program
