package bench

import (
	"context"
	"fmt"
	"time"

	"neuron/internal/bench/chatload"
	"neuron/internal/bench/rig"
)

// mixedColumns are those of the section of the mixed load.
var mixedColumns = []string{"load", "system", "tokens/s", "time to first token, p50", "between tokens, p50", "p99", "longest", "long prompts"}

// mixedLoad is a load and what llama-server made of it.
type mixedLoad struct {
	name   string
	load   chatload.Load
	peer   []string // cells behind the system
	oneHop bool     // only before one node
}

// llamaServer is where the figures of the peer come from.
const llamaServer = "llama-server v0.5.0, 2 cores, measured by us"

// mixedLoads are the loads of the peer's figures, and with Options.Long one that
// keeps sending long prompts.
func (r *run) mixedLoads() []mixedLoad {
	chats := func(n int) chatload.Load {
		return chatload.Load{Chats: n, Prompt: r.s.chatPrompt, Answer: r.s.chatAnswer}
	}
	long := chats(7)
	long.Longs, long.Long, long.Every, long.Until = 1, r.s.longPrompt, time.Minute, r.s.longUntil
	often := chats(8)
	often.Longs, often.Long, often.Every, often.Until = 100, r.s.longPrompt, 5*time.Second, r.s.oftenUntil
	loads := []mixedLoad{
		{"1 client", chats(1), []string{"27.7", "0.96 s", "22 ms", "26 ms", "26 ms", ""}, false},
		{"8 clients", chats(8), []string{"35.5", "7.6 s", "103 ms", "0.1 to 3.8 s", "6.0 s", ""}, false},
		{fmt.Sprintf("7 clients, then one %d-token prompt", r.s.longPrompt), long, []string{"17.1", "1.9 s", "157 ms", "20 s", "30 s", ""}, !r.o.Long},
	}
	if r.o.Long {
		loads = append(loads, mixedLoad{fmt.Sprintf("8 clients, a %d-token prompt every 5 s", r.s.longPrompt), often, nil, false})
	}
	return loads
}

// adaptive leaves the number of threads to the stage, as it is for users.
const adaptive = 0

// mixed puts chats and long prompts on a gateway, before one node with the
// whole model, which is what the peer is, and before a route of two hops.
func (r *run) mixed(ctx context.Context) error {
	first, second := halves(r.s.shape.Layers)
	loads := r.mixedLoads()
	rows := make([][][]string, len(loads)) // per load, so that systems stand below each other
	for _, route := range []struct {
		system string
		layers []string
	}{
		{"one node", []string{"all"}},
		{"two hops", []string{first, second}},
	} {
		if err := r.forgetOthers(r.model); err != nil {
			return err
		}
		var nodes []*rig.Node
		for _, layers := range route.layers {
			x, err := r.node(ctx, r.model, layers, adaptive, "--sessions", "32")
			if err != nil {
				return err
			}
			nodes = append(nodes, x)
		}
		p, api, err := r.gatewayOf(ctx, r.model, nodes[0].Capab.Model, "--active", "16")
		if err != nil {
			return err
		}
		// The first session makes the connections and the memory of the model.
		if _, err := api.Stream(ctx, rig.Prompt(apiPrompt), 4, nil); err != nil {
			return err
		}
		for i, m := range loads {
			if m.oneHop && len(nodes) > 1 {
				continue
			}
			m.load.Seed = uint64(i + 1)
			f, err := api.Run(ctx, m.load)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", route.system, m.name, err)
			}
			fmt.Fprintf(r.o.Out, "# %s, %s: %.1f tokens/s\n", m.name, route.system, f.Rate)
			rows[i] = append(rows[i], append([]string{m.name, route.system}, mixedCells(f)...))
		}
		if err := r.end(p); err != nil {
			return err
		}
	}
	for i, m := range loads {
		for _, row := range rows[i] {
			r.rep.Cells(row...)
		}
		if m.peer != nil {
			r.rep.Cells(append([]string{m.name, llamaServer}, m.peer...)...)
		}
	}
	return r.forgetOthers(r.model)
}

// mixedCells are the figures of a load.
func mixedCells(f *chatload.Figures) []string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%d ms", d.Milliseconds()) }
	long := ""
	if f.Asked > 0 {
		long = fmt.Sprintf("%d of %d answered", len(f.Long), f.Asked)
		if len(f.Long) > 0 {
			long += fmt.Sprintf(", first token after %.1f s (median)", f.Long[len(f.Long)/2].Seconds())
		}
	}
	return []string{fmt.Sprintf("%.1f", f.Rate), fmt.Sprintf("%.2f s", f.First.Seconds()), ms(f.P50), ms(f.P99), ms(f.Longest), long}
}
