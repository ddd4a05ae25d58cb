package session

import (
	"neuron/engine/prefix"
	"neuron/engine/protocol"
)

// openKeys names the prompt's beginnings, unless that was refused. Sessions of
// other clients, policies and models have other names for the same text.
func (d *driver) openKeys() {
	if r := &d.g.req; !d.o.NoPrefix && !r.NoPrefix {
		d.keys = prefix.Of(prefix.Secret(d.o.PrefixSecret, r.Client, r.Policy, r.Model), r.Prompt)
	}
}

// openPrefix lets the prefill begin behind what every hop has kept. One token at
// least is left to run: the first token of the answer comes from it.
func (d *driver) openPrefix(hops []*protocol.OpenReply) {
	prompt := d.g.req.Prompt
	start := min(d.keys.Tokens(), (len(prompt)-1)/prefix.Block*prefix.Block)
	for _, h := range hops {
		start = min(start, h.Kept/prefix.Block*prefix.Block)
	}
	if start <= 0 {
		return
	}
	d.start, d.sent = uint32(start), uint32(start)
	d.guess.add(prompt[:start]...)
	d.g.update(func(t *protocol.Telemetry) { t.PrefillCached, t.PrefillDone = start, start })
}
