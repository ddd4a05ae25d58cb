package parity

import "neuron/llama/exec"

// drive runs the same calls on any route; with all also sessions, truncation
// and state.
func (c *checker) drive(r *chain, all bool) (*results, error) {
	out := &results{}
	ids := c.prompt(c.o.Prompt, 12345)
	var err error
	if out.single, err = extend(r, 0, 0, ids, c.o.Steps); err != nil {
		return nil, err
	}
	if !all {
		return out, nil
	}
	end := len(ids) + c.o.Steps
	if out.restored, err = c.moved(r, end); err != nil {
		return nil, err
	}
	// A short way back, which also a small window holds.
	if out.rewinds = r.truncate(0, end-c.o.Steps/2); out.rewinds {
		out.resumed, err = r.run(exec.Work{Pos: int32(end - c.o.Steps/2), IDs: c.prompt(10, 99)})
		if err != nil {
			return nil, err
		}
	}
	if err := r.clear(0); err != nil {
		return nil, err
	}
	out.sessions, err = c.interleave(r)
	return out, err
}

// extend runs ids in chunks and then greedy steps, and returns all logits.
func extend(r *chain, seq, pos int, ids []int32, steps int) ([][]float32, error) {
	var out [][]float32
	for at := 0; at < len(ids); at += chunkRows {
		l, err := r.run(exec.Work{Seq: seq, Pos: int32(pos + at), IDs: ids[at:min(at+chunkRows, len(ids))]})
		if err != nil {
			return nil, err
		}
		out = append(out, l...)
	}
	for i := range steps {
		l, err := r.run(exec.Work{Seq: seq, Pos: int32(pos + len(ids) + i), IDs: []int32{argmax(out[len(out)-1])}})
		if err != nil {
			return nil, err
		}
		out = append(out, l...)
	}
	return out, nil
}

// moved saves session 0, which ends at pos, restores it as session 1 and goes
// on there.
func (c *checker) moved(r *chain, pos int) ([][]float32, error) {
	state, err := r.save(0)
	if err != nil {
		return nil, err
	}
	if err := r.clear(1); err != nil {
		return nil, err
	}
	if err := r.restore(1, state); err != nil {
		return nil, err
	}
	out, err := extend(r, 1, pos, c.prompt(5, 7), 3)
	if err != nil {
		return nil, err
	}
	return out, r.clear(1)
}

// interleave runs two sessions in turns, then both in common calls.
func (c *checker) interleave(r *chain) ([][]float32, error) {
	a, b := c.prompt(100, 1), c.prompt(80, 2)
	var out [][]float32
	for _, part := range []exec.Work{
		{Seq: 0, IDs: a[:64]}, {Seq: 1, IDs: b[:64]}, {Seq: 0, Pos: 64, IDs: a[64:]}, {Seq: 1, Pos: 64, IDs: b[64:]}, {Seq: 0, Pos: 100, IDs: a[:1]},
	} {
		l, err := r.run(part)
		if err != nil {
			return nil, err
		}
		out = append(out, l...)
	}
	for i := range 4 {
		l, err := r.run(exec.Work{Seq: 0, Pos: int32(101 + i), IDs: a[i : i+1]}, exec.Work{Seq: 1, Pos: int32(80 + i), IDs: b[i : i+1]})
		if err != nil {
			return nil, err
		}
		out = append(out, l...)
	}
	for _, seq := range []int{0, 1} {
		if err := r.clear(seq); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func argmax(v []float32) int32 {
	best := 0
	for i, x := range v {
		if x > v[best] {
			best = i
		}
	}
	return int32(best)
}
