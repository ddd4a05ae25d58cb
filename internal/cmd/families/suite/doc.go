// Package suite runs the parity checks of all families and writes their page. Each
// model in each type is checked in a process of its own, one after another, since a
// family that is not understood can end the process; results are kept, so that a run
// goes on where the last one ended.
//
// Only cmd/families and tests import it.
package suite
