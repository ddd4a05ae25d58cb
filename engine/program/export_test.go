package program

import "neuron/engine/seam"

// Bend makes a node that has not run yet lie: those who open sessions get what
// f makes of its stage. Its audits use the stage as it is.
func (n *Node) Bend(f func(seam.Stage) seam.Stage) { n.o.Wrap = f }
