// Package stage keeps stage processes: it starts a child that loads a shard
// (or a vocabulary), talks frames with it over two pipes, notices when it dies
// or freezes, ends its sessions with a reason, and starts it again.
//
// A failed assertion in libllama aborts the process; that must be the loss of
// one stage and never of the node. The engine's composition imports this
// package; the seam server sees it only as seam.Stage. It never imports the
// libllama binding (engine/stage/worker does, in the child).
package stage
