package gguf

// Limits bound what ReadHeader accepts. A zero field means the default. Counts and
// lengths are checked against Limits and against the file's size before memory is
// allocated for them.
type Limits struct {
	KVs         uint64 // metadata entries
	Tensors     uint64
	KeyLen      uint64 // bytes of a key
	StringLen   uint64 // bytes of one string value
	ArrayLen    uint64 // elements of one array
	HeaderBytes uint64 // everything before the data section
	Dims        uint64 // dimensions of a tensor, at most 4
	NameLen     uint64 // bytes of a tensor's name, at most 63
}

// DefaultLimits has room for the largest published models (vocabularies of some 300,000
// tokens, some ten thousand tensors) with a wide margin.
func DefaultLimits() Limits {
	return Limits{
		KVs:         1 << 16,
		Tensors:     1 << 18,
		KeyLen:      1<<16 - 1,
		StringLen:   64 << 20,
		ArrayLen:    16 << 20,
		HeaderBytes: 512 << 20,
		Dims:        maxDims,
		NameLen:     maxNameLen,
	}
}

func (l Limits) filled() Limits {
	d := DefaultLimits()
	for _, f := range []struct{ v, def *uint64 }{
		{&l.KVs, &d.KVs}, {&l.Tensors, &d.Tensors}, {&l.KeyLen, &d.KeyLen}, {&l.StringLen, &d.StringLen},
		{&l.ArrayLen, &d.ArrayLen}, {&l.HeaderBytes, &d.HeaderBytes}, {&l.Dims, &d.Dims}, {&l.NameLen, &d.NameLen},
	} {
		if *f.v == 0 {
			*f.v = *f.def
		}
	}
	l.Dims = min(l.Dims, maxDims)
	l.NameLen = min(l.NameLen, maxNameLen)
	return l
}
