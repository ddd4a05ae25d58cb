package manifest

import (
	"bytes"
	"encoding/json"

	"neuron/engine/protocol"
)

// Encode gives the canonical form of m, which must pass Check: JSON with the
// fields in the order of the types, all of them, no blanks, no line end, text
// unescaped but for quotes and backslashes. The same manifest has the same
// bytes on every system.
func Encode(m *Manifest) ([]byte, error) {
	if err := m.Check(); err != nil {
		return nil, err
	}
	return encode(m)
}

func encode(m *Manifest) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(filled(m)); err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "encode manifest: %w", err)
	}
	out := bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(out) > MaxBytes-envelope {
		return nil, bad("%d bytes, at most %d are allowed", len(out), MaxBytes-envelope)
	}
	return out, nil
}

// filled is m with empty lists for absent ones, so that both encode alike.
func filled(m *Manifest) *Manifest {
	c := *m
	c.Cuts, c.Ends, c.KVLayerBytes, c.KVWindowLayers = orEmpty(c.Cuts), orEmpty(c.Ends), orEmpty(c.KVLayerBytes), orEmpty(c.KVWindowLayers)
	for i, spans := range c.Ends {
		if spans == nil {
			c.Ends = append([][]Span{}, c.Ends...) // the caller's stays as it is
			c.Ends[i] = []Span{}
		}
	}
	return &c
}

func orEmpty[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// decode reads the canonical form and nothing else.
func decode(b []byte) (*Manifest, error) {
	r := &reader{b: b}
	m := r.manifest()
	if r.err == nil && len(r.b) != 0 {
		r.fail("%d bytes behind its end", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	if err := m.Check(); err != nil {
		return nil, err
	}
	// The reader is strict already; this holds it to the encoder.
	again, err := encode(m)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, b) {
		return nil, bad("the encoding is not canonical")
	}
	return m, nil
}
