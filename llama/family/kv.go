package family

import "math"

// Memory is what the state of one session takes in one layer: bytes for each
// position, by kind, and bytes whatever the session's length.
type Memory struct {
	// Full is of keys and values, or of their compressed rows, for all
	// positions; Window of those that slide, for at most Model.WindowCells.
	Full, Window int64
	// Indexer is of the keys that an indexer chooses positions by.
	Indexer int64
	// State is of recurrent layers and compressors, per session.
	State int64
}

func (a Memory) add(b Memory) Memory {
	return Memory{a.Full + b.Full, a.Window + b.Window, a.Indexer + b.Indexer, a.State + b.State}
}

// Cell is what a position takes while nothing has slid away.
func (a Memory) Cell() int64 { return a.Full + a.Window + a.Indexer }

// cacheShape are the sizes that memory is counted by.
type cacheShape struct {
	key, val       int // per head, of layers that see everything
	keySWA, valSWA int // of those with a window
	latent         bool
	indexer        int // elements of an indexer's key
	state          int64
}

// maxState bounds the recurrent state of one layer, in bytes.
const maxState = 1 << 34

func (m *Model) readCache(r *reader) {
	c := &m.cache
	if m.family.Recurrent != RecurAll {
		head := 0
		for _, h := range m.heads { // a layer without attention may have none
			if head = h; h > 0 {
				break
			}
		}
		per := m.Embd / max(1, head)
		c.key = r.optional("attention.key_length", per, maxHead)
		c.val = r.optional("attention.value_length", per, maxHead)
		c.keySWA = r.optional("attention.key_length_swa", c.key, maxHead)
		c.valSWA = r.optional("attention.value_length_swa", c.val, maxHead)
		_, k := r.get("attention.key_length_mla")
		_, v := r.get("attention.value_length_mla")
		c.latent = k && v
		if n := r.optional("rope.dimension_count", c.key, maxHead); n%2 != 0 || n > max(c.key, c.keySWA) {
			r.fail("%d rotary dimensions of %d per head", n, c.key)
		}
	}
	if m.family.Cache == CacheIndexed || m.family.Cache == CacheBlocks || m.family.Cache == CacheCompressed {
		c.indexer = r.size("attention.indexer.key_length", 1, maxHead)
	}
	if m.family.Recurrent != RecurNone {
		c.state = m.readState(r)
	}
}

// readState is the size of a recurrent layer's state, in F32
// (llama_hparams::n_embd_r and n_embd_s).
func (m *Model) readState(r *reader) int64 {
	const most = 1 << 20
	heads := 0
	if len(m.heads) > 0 {
		heads = m.heads[0]
	}
	conv := r.optional("ssm.conv_kernel", 0, most)
	var n float64 // no overflow
	if l := r.optional("shortconv.l_cache", 0, most); l > 0 {
		n = float64(m.Embd) * float64(l-1)
	} else if d := r.optional("kda.head_dim", 0, most); d > 0 {
		if conv == 0 {
			conv = 4
		}
		n = float64(d) * float64(heads) * float64(3*(conv-1)+d)
	} else {
		inner, state := r.optional("ssm.inner_size", 0, most), r.optional("ssm.state_size", 0, most)
		groups := r.optional("ssm.group_count", 0, most)
		n = float64(max(0, conv-1))*(float64(inner)+2*float64(groups)*float64(state)) + float64(state)*float64(inner)
	}
	if n*4 > maxState {
		r.fail("a recurrent state of %.0f bytes in each layer", n*4)
		return 0
	}
	return int64(math.Round(n)) * 4
}

// LayerMemory is what layer i keeps of a session with keys and values of
// elemBytes each; the zero value for families whose memory is not known here.
func (m *Model) LayerMemory(i, elemBytes int) Memory {
	var out Memory
	if m.kinds == nil || m.family.Cache == CacheUnknown {
		return out
	}
	k, c, elem := m.kinds[i], m.cache, int64(elemBytes)
	if k&KindRecurrent != 0 {
		out.State = c.state
	}
	if k&KindAttention == 0 {
		return out
	}
	key, val := int64(c.key), int64(c.val)
	if k&KindSliding != 0 {
		key, val = int64(c.keySWA), int64(c.valSWA)
	}
	if c.latent || m.family.Cache == CacheCompressed {
		val = 0
	}
	row := int64(m.kvHeads[i]) * (key + val) * elem
	if k&KindSliding != 0 {
		out.Window = row
	} else {
		out.Full = row
	}
	indexer := int64(c.indexer) * elem
	switch m.family.Cache {
	case CacheIndexed:
		if m.family.Indexers == nil || k&KindIndexer != 0 {
			out.Indexer = indexer
		}
	case CacheBlocks:
		if k&KindSparse != 0 {
			out.Indexer = indexer + int64(c.val)*elem // the cache has values, too, of one head
		}
	case CacheCompressed:
		// Compressed rows beside the window, and in F32 what their compressors
		// gather, twice.
		switch ratio := int64(m.ratios[i]); ratio {
		case 4:
			out.Full, out.Indexer = (row+3)/4, (indexer+3)/4
			out.State = 2 * 2 * ratio * 2 * (int64(m.kvHeads[i])*key + int64(c.indexer)) * 4
		case 128:
			out.Full = (row + 127) / 128
			out.State = 2 * ratio * int64(m.kvHeads[i]) * key * 4
		}
	}
	return out
}

// RangeMemory is what a stage of layers [first, last) keeps, its pads with it,
// which are memory like others. A range that may not be a stage has its layers'
// alone.
func (m *Model) RangeMemory(first, last, elemBytes int) Memory {
	var out Memory
	if s, err := m.Stage(first, last); err == nil {
		for _, l := range s.Slots {
			if l.Layer < len(m.kinds) {
				out = out.add(m.LayerMemory(l.Layer, elemBytes))
			}
		}
		return out
	}
	for i := first; i < last && i < len(m.kinds); i++ {
		out = out.add(m.LayerMemory(i, elemBytes))
	}
	return out
}

// KVLayerBytes is, per layer of [first, last), the cache cost of one position
// with keys and values of elemBytes each (2 for F16). Nil for families whose
// memory is not known here.
func (m *Model) KVLayerBytes(first, last, elemBytes int) []int64 {
	if m.kinds == nil || m.family.Cache == CacheUnknown {
		return nil
	}
	out := make([]int64, 0, last-first)
	for i := first; i < last; i++ {
		out = append(out, m.LayerMemory(i, elemBytes).Cell())
	}
	return out
}

// KVBytesPerCell is what one position takes in a stage of layers [first, last),
// pads included. Sliding layers keep no more than WindowCells positions; for
// them this is the upper bound.
func (m *Model) KVBytesPerCell(first, last, elemBytes int) int64 {
	return m.RangeMemory(first, last, elemBytes).Cell()
}

// KVWindowBytes is the part of KVBytesPerCell that belongs to sliding layers.
func (m *Model) KVWindowBytes(first, last, elemBytes int) int64 {
	return m.RangeMemory(first, last, elemBytes).Window
}

// KVStateBytes is what one session takes in a stage whatever its length.
func (m *Model) KVStateBytes(first, last int) int64 { return m.RangeMemory(first, last, 2).State }

// cellPad is what libllama rounds the cells of a sequence up to.
const cellPad = 256

// WindowCells is how many positions a sliding layer keeps of one sequence when
// a call has at most rows rows: the window and one call's rows, padded
// (llama_kv_cache_iswa without swa_full). 0 without sliding layers.
func (m *Model) WindowCells(rows int) int {
	if !m.slides() {
		return 0
	}
	return (m.Window + rows + cellPad - 1) / cellPad * cellPad
}
