package toolcall

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// properties is a tool's parameters: their schemas in their order.
type properties struct {
	root map[string]json.RawMessage
	list []member
}

type member struct {
	name  string
	value json.RawMessage
}

// propertiesOf reads the schema of a tool's parameters; what it cannot read is
// left out.
func propertiesOf(parameters json.RawMessage) (p properties) {
	if json.Unmarshal(parameters, &p.root) == nil {
		p.list = members(p.root["properties"])
	}
	return p
}

// kinds are the JSON types that an argument may have; nil when nothing is
// known.
func (p properties) kinds(key string) []string {
	for _, m := range p.list {
		if m.name == key {
			return p.kindsOf(m.value, 8)
		}
	}
	return nil
}

// kindsOf follows references and alternatives to the given depth.
func (p properties) kindsOf(raw json.RawMessage, depth int) (kinds []string) {
	var s struct {
		Type       json.RawMessage   `json:"type"`
		Ref        string            `json:"$ref"`
		Const      json.RawMessage   `json:"const"`
		Enum       []json.RawMessage `json:"enum"`
		AnyOf      []json.RawMessage `json:"anyOf"`
		OneOf      []json.RawMessage `json:"oneOf"`
		AllOf      []json.RawMessage `json:"allOf"`
		Properties json.RawMessage   `json:"properties"`
		Items      json.RawMessage   `json:"items"`
	}
	if depth == 0 || json.Unmarshal(raw, &s) != nil {
		return nil
	}
	var one string
	switch {
	case s.Type != nil && json.Unmarshal(s.Type, &one) == nil:
		kinds = []string{one}
	case s.Type != nil:
		if json.Unmarshal(s.Type, &kinds) != nil {
			return nil
		}
	case s.Const != nil:
		kinds = []string{kindOf(string(s.Const))}
	case s.Ref != "":
		kinds = p.kindsOf(p.definition(s.Ref), depth-1)
	case s.Properties != nil:
		kinds = []string{"object"}
	case s.Items != nil:
		kinds = []string{"array"}
	}
	if s.Type == nil {
		for _, v := range s.Enum {
			kinds = append(kinds, kindOf(string(v)))
		}
		for _, v := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
			kinds = append(kinds, p.kindsOf(v, depth-1)...)
		}
	}
	for i, k := range kinds {
		if k == "integer" {
			kinds[i] = "number"
		}
	}
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// definition is what a reference into the schema's definitions names.
func (p properties) definition(ref string) json.RawMessage {
	for _, at := range []string{"$defs", "definitions"} {
		if name, ok := strings.CutPrefix(ref, "#/"+at+"/"); ok {
			var defs map[string]json.RawMessage
			if json.Unmarshal(p.root[at], &defs) == nil {
				return defs[name]
			}
		}
	}
	return nil
}

// members are an object's, in their order; none of what is no object.
func members(raw json.RawMessage) (list []member) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil
		}
		m := member{}
		if m.name, _ = key.(string); d.Decode(&m.value) != nil {
			return nil
		}
		list = append(list, m)
	}
	return list
}

// standalone is a part of the schema with the definitions that it may name.
func (p properties) standalone(raw json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return raw
	}
	text := strings.TrimSpace(string(raw))
	for _, k := range []string{"$defs", "definitions"} {
		if p.root[k] != nil && m[k] == nil {
			text = `{"` + k + `":` + string(p.root[k]) + "," + text[1:]
		}
	}
	return json.RawMessage(text)
}

// texts are the values of a schema that allows a list of strings only.
func (p properties) texts(raw json.RawMessage, depth int) []string {
	var s struct {
		Ref   string   `json:"$ref"`
		Enum  []string `json:"enum"`
		Const *string  `json:"const"`
	}
	switch {
	case depth == 0 || json.Unmarshal(raw, &s) != nil:
		return nil
	case s.Ref != "":
		return p.texts(p.definition(s.Ref), depth-1)
	case s.Const != nil:
		return []string{*s.Const}
	}
	return s.Enum
}

// anyText reports a schema that every text matches, read as tagValue reads it;
// with listed, every text of the lists in it.
func (p properties) anyText(raw json.RawMessage, depth int, listed bool) bool {
	var s map[string]json.RawMessage
	if depth == 0 || json.Unmarshal(raw, &s) != nil {
		return false
	}
	for k, v := range s {
		switch k {
		case "type":
			for _, kind := range p.kindsOf(json.RawMessage(`{"type":`+string(v)+`}`), 1) {
				if kind != "string" && kind != "null" && kind != "boolean" {
					return false
				}
			}
		case "anyOf":
			var list []json.RawMessage
			if json.Unmarshal(v, &list) != nil || slices.ContainsFunc(list, func(r json.RawMessage) bool { return !p.anyText(r, depth-1, listed) }) {
				return false
			}
		case "$ref":
			var ref string
			if json.Unmarshal(v, &ref) != nil || !p.anyText(p.definition(ref), depth-1, listed) {
				return false
			}
		case "enum", "const":
			if !listed {
				return false
			}
		case "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$comment":
		default:
			return false
		}
	}
	return true
}
