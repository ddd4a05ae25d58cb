package family

import (
	"math"
	"slices"

	"neuron/llama/gguf"
)

// slidingKey is the key of which layers slide: a period, or an array.
const slidingKey = "attention.sliding_window_pattern"

// readLayers finds the kinds of all layers.
func (m *Model) readLayers(r *reader) {
	f, n := m.family, m.Layers
	if f.Streams != "" {
		m.streams = r.size(f.Streams, 1, maxStreams)
	}
	none := make([]int, n)
	if f.Recurrent == RecurAll {
		m.heads, m.kvHeads = none, none
	} else {
		m.heads = r.perLayer("attention.head_count", n, nil, maxHeads)
		m.kvHeads = r.perLayer("attention.head_count_kv", n, m.heads, maxHeads)
	}
	m.kinds = make([]Kind, n)
	for i := range m.kinds {
		m.kinds[i] = KindAttention | KindFull
		if m.heads[i] > 0 {
			m.kinds[i] |= KindHeads
		}
		if kv := m.kvHeads[i]; kv > 0 && m.heads[i]%kv != 0 {
			r.fail("layer %d has %d attention heads for %d of keys and values", i, m.heads[i], kv)
		}
	}
	m.readSliding(r)
	m.readRecurrent(r)
	for _, key := range f.Lead {
		m.leads = append(m.leads, min(r.optional(key, 0, math.MaxInt32), n))
	}
	if f.IDs != "" {
		m.ids = min(r.optional(f.IDs, 0, math.MaxInt32), n)
	}
	for i := range m.kinds {
		if len(m.leads) > 0 && i >= m.leads[0] {
			m.kinds[i] |= KindSparse
		}
	}
	for _, x := range f.Index {
		if x.Sliding && !m.slides() {
			continue
		}
		p := x.Period
		if x.Key != "" {
			p = r.optional(x.Key, p, maxLayers)
		}
		if p < 1 {
			r.fail("%s.%s is 0", m.Arch, x.Key)
			return
		}
		at := index{x.Kind, p, x.First}
		m.index = append(m.index, at)
		for i := range m.kinds {
			if x.Kind != 0 && at.has(i) {
				m.kinds[i] |= x.Kind
			}
		}
	}
	m.readIndexers(r)
	if f.Ratios != "" {
		m.ratios = r.perLayer(f.Ratios, n, nil, 1<<20)
		for i, x := range m.ratios {
			switch x {
			case 4:
				m.kinds[i] |= KindCompressed
			case 128:
				m.kinds[i] |= KindPooled
			}
		}
	}
}

func (m *Model) readSliding(r *reader) {
	s := m.family.Sliding
	m.Window = r.optional("attention.sliding_window", 0, 1<<30)
	if s == nil {
		return
	}
	_, stated := r.get("attention.sliding_window")
	if on := m.Window > 0 || s.Always && !stated; !on && !s.All {
		return
	}
	m.windowed = true
	if s.Window > 0 {
		m.Window = s.Window
	}
	var slide []bool
	switch {
	case s.All:
		slide = slices.Repeat([]bool{true}, m.Layers)
	default:
		var ignored bool
		if slide, m.scalar, ignored = r.pattern(s, m.Layers); ignored {
			m.WholeOnly = m.Arch + "." + slidingKey + " is an array that the pinned library ignores"
		}
	}
	for i, yes := range slide {
		if yes {
			m.kinds[i] = m.kinds[i]&^KindFull | KindSliding
		}
	}
}

func (m *Model) readRecurrent(r *reader) {
	recurrent := make([]bool, m.Layers)
	without := make([]bool, m.Layers) // without any memory
	switch m.family.Recurrent {
	case RecurNone:
		return
	case RecurAll:
		for i := range recurrent {
			recurrent[i] = true
		}
	case RecurBoth:
		for i := range m.kinds {
			m.kinds[i] |= KindRecurrent
		}
		return
	case RecurHeads:
		for i, kv := range m.kvHeads {
			recurrent[i] = kv == 0
		}
	case RecurHeadsFF:
		ff := r.perLayer("feed_forward_length", m.Layers, make([]int, m.Layers), 1<<24)
		for i, kv := range m.kvHeads {
			recurrent[i] = kv == 0 && ff[i] == 0
			without[i] = ff[i] > 0
		}
	case RecurInterval:
		if _, ok := r.get("attention.recurrent_layers"); ok {
			recurrent = r.flags("attention.recurrent_layers", m.Layers)
			break
		}
		every := r.optional("full_attention_interval", 4, maxLayers)
		if every < 1 {
			r.fail("%s.full_attention_interval is 0", m.Arch)
			return
		}
		for i := range recurrent {
			recurrent[i] = (i+1)%every != 0
		}
	}
	for i := range m.kinds {
		switch {
		case without[i]:
			m.kinds[i] &^= KindAttention | KindFull | KindSliding
		case recurrent[i]:
			m.kinds[i] = m.kinds[i]&^(KindAttention|KindFull|KindSliding) | KindRecurrent
		}
	}
}

func (m *Model) readIndexers(r *reader) {
	x := m.family.Indexers
	if x == nil {
		return
	}
	has := make([]bool, m.Layers)
	if _, ok := r.get(x.Key); ok {
		has = r.flags(x.Key, m.Layers)
	} else {
		for i := range has {
			has[i] = x.Long == nil || m.Context < x.LongContext || x.Long(i)
		}
	}
	for i, yes := range has {
		if yes {
			m.kinds[i] |= KindIndexer
		}
	}
	if x.Shared {
		m.topK = r.size(x.TopK, 1, maxTopK)
	}
}

// readSet finds the values that stages must state.
func (m *Model) readSet(r *reader) {
	for _, key := range m.family.Zero {
		if r.value(key, 0) != 0 {
			m.zero = append(m.zero, key)
		}
	}
	// The library divides the width by the first layer's heads, which in a stage
	// is another layer's.
	if h := m.heads; len(h) > 0 && slices.Min(h) != slices.Max(h) {
		for _, d := range []struct {
			key string
			n   int
		}{{"attention.key_length", m.cache.key}, {"attention.value_length", m.cache.val}} {
			if _, ok := r.get(d.key); !ok {
				m.set = append(m.set, gguf.KV{Key: m.Arch + "." + d.key, Value: gguf.U32(uint32(d.n))})
			}
		}
	}
	for _, d := range m.family.Set {
		if _, ok := r.get(d.Key); ok {
			continue
		}
		v, ok := d.Value(m.Layers, m.Vocab)
		if !ok {
			continue
		}
		kv := gguf.KV{Key: m.Arch + "." + d.Key, Value: gguf.F32(float32(v))}
		if d.Int {
			kv.Value = gguf.U32(uint32(v))
		}
		m.set = append(m.set, kv)
	}
}
