package schema

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"slices"
	"strings"
)

// kind is the type of a JSON value.
type kind byte

const (
	isNull kind = iota
	isBool
	isNumber
	isString
	isArray
	isObject
)

// value is a JSON value that keeps the order of keys, which becomes the order
// of properties. Values are shared and never changed after parsing.
type value struct {
	kind  kind
	yes   bool
	text  string // of a string; a number as it was written
	items []*value
	keys  []string // in order, without repeats
	vals  map[string]*value
}

// parse reads one JSON value; ptr is for errors.
func parse(raw []byte) (*value, *Error) {
	if len(raw) > MaxSource {
		return nil, wrong("", "", "it has %d bytes, at most %d are allowed", len(raw), MaxSource)
	}
	if !json.Valid(raw) {
		return nil, wrong("", "", "it is not JSON")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := parseNext(d, 0)
	if err != nil {
		return nil, err
	}
	if _, more := d.Token(); more != io.EOF {
		return nil, wrong("", "", "there is something behind the JSON value")
	}
	return v, nil
}

func parseNext(d *json.Decoder, depth int) (*value, *Error) {
	if depth > MaxDepth {
		return nil, wrong("", "", "it is nested deeper than %d", MaxDepth)
	}
	tok, err := d.Token()
	if err != nil {
		return nil, wrong("", "", "it is not JSON")
	}
	switch t := tok.(type) {
	case nil:
		return &value{}, nil
	case bool:
		return &value{kind: isBool, yes: t}, nil
	case json.Number:
		return &value{kind: isNumber, text: t.String()}, nil
	case string:
		return &value{kind: isString, text: t}, nil
	}
	v := &value{kind: isArray}
	if tok == json.Delim('{') {
		v.kind, v.vals = isObject, map[string]*value{}
	}
	for d.More() {
		key := ""
		if v.kind == isObject {
			k, err := d.Token()
			if err != nil {
				return nil, wrong("", "", "it is not JSON")
			}
			key, _ = k.(string)
		}
		e, perr := parseNext(d, depth+1)
		if perr != nil {
			return nil, perr
		}
		if v.kind == isObject {
			v.put(key, e)
		} else {
			v.items = append(v.items, e)
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, wrong("", "", "it is not JSON")
	}
	return v, nil
}

// put sets a key of an object under construction.
func (v *value) put(key string, e *value) {
	if _, known := v.vals[key]; !known {
		v.keys = append(v.keys, key)
	}
	v.vals[key] = e
}

// get is the value of a key, nil if it is absent or v no object.
func (v *value) get(key string) *value { return v.vals[key] }

// without is a copy of the object v without some keys.
func (v *value) without(keys ...string) *value {
	out := &value{kind: isObject, vals: map[string]*value{}}
	for _, k := range v.keys {
		if !slices.Contains(keys, k) {
			out.put(k, v.vals[k])
		}
	}
	return out
}

// object makes an object of one key.
func object(key string, v *value) *value {
	return &value{kind: isObject, keys: []string{key}, vals: map[string]*value{key: v}}
}

// json writes v without white space.
func (v *value) json(b *strings.Builder) {
	switch v.kind {
	case isNull:
		b.WriteString("null")
	case isBool:
		if v.yes {
			b.WriteString("true")
		} else {
			b.WriteString("false")
		}
	case isNumber:
		b.WriteString(v.text)
	case isString:
		b.WriteString(jsonString(v.text))
	case isArray:
		b.WriteByte('[')
		for i, e := range v.items {
			if i > 0 {
				b.WriteByte(',')
			}
			e.json(b)
		}
		b.WriteByte(']')
	case isObject:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(jsonString(k))
			b.WriteByte(':')
			v.vals[k].json(b)
		}
		b.WriteByte('}')
	}
}

func jsonOf(v *value) string {
	var b strings.Builder
	v.json(&b)
	return b.String()
}

// jsonString is s as a JSON string, with only the escapes that JSON demands.
func jsonString(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// equal compares as JSON Schema does: numbers by value, objects without order.
func equal(a, b *value) bool {
	if a.kind != b.kind {
		return false
	}
	switch a.kind {
	case isNull:
		return true
	case isBool:
		return a.yes == b.yes
	case isNumber:
		x, okx := rat(a)
		y, oky := rat(b)
		return a.text == b.text || okx && oky && x.Cmp(y) == 0
	case isString:
		return a.text == b.text
	case isArray:
		return slices.EqualFunc(a.items, b.items, equal)
	}
	if len(a.keys) != len(b.keys) {
		return false
	}
	for _, k := range a.keys {
		if e := b.get(k); e == nil || !equal(a.vals[k], e) {
			return false
		}
	}
	return true
}

// rat is a number exactly; false for those with absurd exponents.
func rat(v *value) (*big.Rat, bool) {
	if v == nil || v.kind != isNumber || len(v.text) > 64 {
		return nil, false
	}
	if i := strings.IndexAny(v.text, "eE"); i >= 0 && len(strings.TrimLeft(v.text[i+1:], "+-0")) > 2 {
		return nil, false
	}
	return new(big.Rat).SetString(v.text)
}

// escapePointer writes a key as a part of a JSON pointer.
func escapePointer(key string) string {
	return strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}
