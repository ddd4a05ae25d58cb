package placement

import (
	"fmt"

	"neuron/engine/protocol"
)

// layersOf begins a sentence, the last layer included.
func layersOf(e *entry, r protocol.Range) string {
	switch {
	case r.Len() == e.Layers:
		return fmt.Sprintf("All %d layers of %s", e.Layers, e.Name)
	case r.Len() == 1:
		return fmt.Sprintf("Layer %d of %s", r.First, e.Name)
	}
	return fmt.Sprintf("Layers %d to %d of %s", r.First, r.Last-1, e.Name)
}

// sentence says why the range was chosen.
func (d *Decision) sentence(e *entry) string {
	s := layersOf(e, d.Range) + ": "
	switch d.Reason {
	case ReasonAsked:
		return s + "chosen by the computer's owner"
	case ReasonKeep:
		return s + "this computer has them and keeps them"
	case ReasonMissing:
		if d.RoutesAfter > d.RoutesBefore {
			return s + "the model is asked for, and these were the last layers missing"
		}
		return s + fmt.Sprintf("the model is asked for, and these are %.0f %% of the layers that no computer holds", 100*d.Fill)
	case ReasonRoute:
		return s + fmt.Sprintf("makes %d independent %s out of %d", d.RoutesAfter, plural(d.RoutesAfter, "route"), d.RoutesBefore)
	case ReasonPart:
		return s + fmt.Sprintf("%.0f %% of what the next independent route needs; %s there now", 100*d.Fill, count(d.RoutesBefore, "route"))
	}
	return s + "nobody asks for a model that would fit; this one is held ready"
}

func plural(n int, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

func count(n int, word string) string {
	switch n {
	case 0:
		return "none is"
	case 1:
		return "1 " + word + " is"
	}
	return fmt.Sprintf("%d %ss are", n, word)
}
