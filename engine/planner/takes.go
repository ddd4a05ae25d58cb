package planner

import (
	"fmt"

	"neuron/engine/protocol"
)

// Takes says what layers of a model cost, for people: "layers 12 to 19 take
// 6.2 GB and 410 MB per 32K conversation". weights are bytes, conversation the
// KV memory of one conversation of so many tokens in these layers; 0 where it
// is not known leaves it out.
func Takes(r protocol.Range, weights, conversation int64, tokens int) string {
	s, verb := "layers "+words(r), "take"
	if r.Len() == 1 {
		s, verb = "layer "+words(r), "takes"
	}
	s += " " + verb + " " + size(weights)
	if conversation > 0 {
		s += " and " + size(conversation) + " per " + length(tokens) + " conversation"
	}
	return s
}

// length writes a number of tokens as models state it: 32K, or all digits.
func length(tokens int) string {
	if tokens >= 1024 && tokens%1024 == 0 {
		return fmt.Sprintf("%dK", tokens/1024)
	}
	return fmt.Sprintf("%d-token", tokens)
}
