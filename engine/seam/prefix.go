package seam

import (
	"crypto/sha256"
	"encoding/json"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
)

// prefixOf says what kept state a session may use. Whoever can write into it
// must be the same: the driver, who names the tokens, and the hops before this
// one, whose rows it was made of. They are taken from the lease that the tracker
// signed, so nobody reads or poisons the state of others.
func prefixOf(l *protocol.Lease, hop int, keys prefix.Keys) Prefix {
	if keys.Blocks() == 0 {
		return Prefix{}
	}
	type part struct {
		Node protocol.NodeID
		Use  protocol.Range
	}
	scope := struct {
		Driver protocol.NodeID
		Policy string
		Model  protocol.ModelID
		DType  protocol.DType
		Build  protocol.Build
		Hops   []part
	}{l.Driver, l.Policy, l.Model, l.DType, l.EngineBuild, nil}
	for _, h := range l.Hops[:hop+1] {
		scope.Hops = append(scope.Hops, part{h.Node, h.Use})
	}
	raw, err := json.Marshal(scope)
	if err != nil {
		return Prefix{} // strings and numbers only; without a scope nothing is shared
	}
	return Prefix{
		Scope: sha256.Sum256(append([]byte("neuron-prefix-scope-v1\x00"), raw...)),
		Keys:  keys, Private: l.Policy == protocol.PolicyPrivate,
	}
}
