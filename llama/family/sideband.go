package family

// Sideband is what a stage that begins at layer first needs from its sender
// beside hidden rows; nothing for 0 and out of range.
func (m *Model) Sideband(first int) Sideband {
	if first <= 0 || first >= m.Layers || m.family.Arch == "" {
		return Sideband{}
	}
	s := Sideband{IDs: first < m.ids}
	if x := m.family.Indexers; x != nil && x.Shared && m.uses(first) {
		s.TopK = m.topK
	}
	return s
}

// uses reports whether layer i works with the choice of one before it: it
// attends to all positions and has no indexer.
func (m *Model) uses(i int) bool {
	k := m.kinds[i]
	return k&KindIndexer == 0 && k&KindFull != 0
}

// choices finds the nodes of chosen positions that come in and go out. One
// tensor serves a layer with an indexer and those behind it that share; the
// graph names it after the last of them.
func (m *Model) choices(s *Stage) {
	x := m.family.Indexers
	if x == nil || !x.Shared {
		return
	}
	s.Plan.TopKWidth = m.topK
	last := func(at int) int { // the last place that shares with at
		for i := at + 1; i < len(s.Slots); i++ {
			switch k := m.kinds[s.Slots[i].Layer]; {
			case k&KindIndexer != 0:
				return at
			case k&KindFull != 0:
				at = i
			}
		}
		return at
	}
	if s.Plan.In.TopK > 0 && s.Plan.Front > 0 {
		s.Plan.TopKIn = node("top_k", last(s.Plan.Front-1))
	}
	for e := s.Plan.First + 1; e <= s.Plan.Last && e < m.Layers; e++ {
		if m.Sideband(e).TopK == 0 {
			continue
		}
		// The newest choice before the boundary, wherever its layer lies.
		at := s.Plan.Front + e - s.Plan.First - 1
		for at > 0 && m.kinds[s.Slots[at].Layer]&KindIndexer == 0 {
			at--
		}
		if s.Plan.TopKOut == nil {
			s.Plan.TopKOut = map[int]string{}
		}
		s.Plan.TopKOut[e] = node("top_k", last(at))
	}
}
