// Package audit is a node's part in numeric audits: it keeps frames of sampled
// public sessions at the neighbours of a hop, hands them to the node that the
// tracker names, and as that node re-executes them and says how far the claimed
// output lies from its own. docs/protocol/audits.md describes the whole.
//
// The composition of the engine (engine/program) imports it, for nodes and
// gateways. Of our packages it uses engine/protocol and, for the way between
// nodes and for stages, engine/seam. Nothing here decides anything about
// another node: figures go to the tracker, and a failure is a reason, never
// the end of a session.
package audit
