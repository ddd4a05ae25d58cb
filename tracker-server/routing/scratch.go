package routing

// reset makes the scratch memory ready for a search.
func (w *scratch) reset(layers, sites int) {
	if len(w.ending) <= layers {
		w.ending = append(w.ending, make([][]label, layers+1-len(w.ending))...)
		w.open = make([]bool, len(w.ending))
	}
	for i := range layers + 1 {
		w.ending[i], w.open[i] = w.ending[i][:0], false
	}
	if len(w.first) < sites {
		w.first = make([]int32, sites+sites/2)
	}
}

// enter begins a boundary.
func (w *scratch) enter(labels []label) {
	for i := range labels {
		site := labels[i].shard.site
		labels[i].next, w.first[site] = w.first[site], int32(i+1)
	}
	w.order, w.sorted = w.order[:0], w.sorted[:0]
}

// clear ends it.
func (w *scratch) clear(labels []label) {
	for i := range labels {
		w.first[labels[i].shard.site] = 0
	}
}

// nth is the n-th best label of the boundary, nil when there are not so many.
// The order is made as far as it is asked for: most shards need few.
func (w *scratch) nth(n int, labels []label, at int32) *label {
	less := func(a, b int32) bool { return labels[a].compare(&labels[b], at) < 0 }
	if n >= len(labels) {
		return nil
	}
	if len(w.order) == 0 && len(w.sorted) == 0 {
		for i := range labels {
			w.order = append(w.order, int32(i))
		}
		for i := len(labels)/2 - 1; i >= 0; i-- {
			sift(w.order, i, less)
		}
	}
	for len(w.sorted) <= n {
		last := len(w.order) - 1
		w.sorted = append(w.sorted, w.order[0])
		w.order[0] = w.order[last]
		w.order = w.order[:last]
		sift(w.order, 0, less)
	}
	return &labels[w.sorted[n]]
}

// sift moves the i-th item of a heap down to its place.
func sift(h []int32, i int, less func(a, b int32) bool) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			return
		}
		if c+1 < len(h) && less(h[c+1], h[c]) {
			c++
		}
		if !less(h[c], h[i]) {
			return
		}
		h[i], h[c] = h[c], h[i]
		i = c
	}
}
