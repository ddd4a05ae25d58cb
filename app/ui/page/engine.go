package page

import (
	"neuron/engine/localapi"
	"neuron/internal/desktop/link"
)

// Engine gives a view model the engine of a link as the interface E that it
// needs: as as makes of the client, or the zero E, nil, while none answers.
func Engine[E any](l *link.Link, as func(*localapi.Client) E) func() E {
	return func() (none E) {
		if c := l.Client(); c != nil {
			return as(c)
		}
		return none
	}
}
