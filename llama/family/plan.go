package family

import "strconv"

// Sideband is what a stage needs from its sender beside hidden rows.
type Sideband struct {
	// IDs: the token ids of the rows, because a layer of the stage looks
	// something up by them.
	IDs bool
	// TopK is how many int32 each row has of the positions that the last
	// indexer has chosen, which the stage's first layers use too; 0: none.
	// Entries behind what was chosen are -1.
	TopK int
}

// Plan says how the files of a stage are run: where rows go in and come out.
// Node names are those of llama.cpp's graphs, layers in them count from the
// stage's first one, pads included. It may travel as JSON to a stage process.
type Plan struct {
	// First and Last are the stage's layers in the whole model, Layers its
	// count.
	First  int `json:"first"`
	Last   int `json:"last"`
	Layers int `json:"layers"`
	// Front and Back are how many layers of zeros lie before and behind.
	Front int `json:"front,omitempty"`
	Back  int `json:"back,omitempty"`
	// Held is how many layers the library sees, if that is not the range and
	// its pads: the publisher's file may hold layers that predict further
	// tokens.
	Held int `json:"held,omitempty"`
	// Width is the number of floats per row at the seams.
	Width int `json:"width"`
	// Entry is the node that hidden rows overwrite; "" gives them to the
	// library as embeddings. A head has neither.
	Entry string `json:"entry,omitempty"`
	// Exit is a layer's output without "-<layer>"; LastExit the whole name for
	// the stage's last layer where it differs.
	Exit     string `json:"exit"`
	LastExit string `json:"last_exit,omitempty"`
	// ExitNext: a layer's output is called like the next layer's input.
	ExitNext bool `json:"exit_next,omitempty"`
	// In is what the stage needs beside hidden rows.
	In Sideband `json:"in"`
	// TopKIn is the node that the sender's choice overwrites; TopKOut the nodes
	// to read for boundaries whose receiver needs one, by boundary.
	TopKIn  string         `json:"top_k_in,omitempty"`
	TopKOut map[int]string `json:"top_k_out,omitempty"`
	// TopKWidth is the int32 per row of TopKOut's nodes, at most.
	TopKWidth int `json:"top_k_width,omitempty"`
}

// Head reports whether rows come in as token ids alone.
func (p *Plan) Head() bool { return p.First == 0 }

// Tail reports whether the stage ends with logits.
func (p *Plan) Tail() bool { return p.Last == p.Layers }

// Slots is the number of layers that the library counts in the stage's files.
func (p *Plan) Slots() int {
	if p.Held > 0 {
		return p.Held
	}
	return p.Front + p.Last - p.First + p.Back
}

// ExitNode is the node with the rows at boundary e, First < e <= Last.
func (p *Plan) ExitNode(e int) string {
	if e == p.Last && p.Back == 0 && p.LastExit != "" {
		return p.LastExit
	}
	return p.output(p.Front + e - p.First - 1)
}

// output is the node of the output of the layer at a place.
func (p *Plan) output(at int) string {
	if p.ExitNext {
		at++
	}
	return node(p.Exit, at)
}

// LastLayer reports whether boundary e lies behind the last layer that the
// library knows; there it keeps only the rows that are flagged for output.
func (p *Plan) LastLayer(e int) bool { return e == p.Last && p.Back == 0 }

func node(name string, layer int) string { return name + "-" + strconv.Itoa(layer) }
