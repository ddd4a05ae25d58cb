// Package chaos holds the tools with which the acceptance run and the soak run
// break a network and look at what is left: a TCP proxy that swallows or
// resets, processor burners, figures of processes, an API client that takes no
// short answer for a whole one, and a look into a node.
//
// Only internal/acceptance and internal/soak import it. It knows the public
// faces of the programs (the OpenAI API and the local API), nothing inside.
package chaos
