package chattmpl

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"

	"github.com/ardanlabs/jinja"
)

// message is what a template sees of one turn.
func (t *Template) message(m Message) jinja.Value {
	v := jinja.NewDict()
	d := v.AsDict()
	d.Set("role", jinja.NewString(m.Role))
	if m.NoContent && contentNone.MatchString(t.source) {
		d.Set("content", jinja.None())
	} else {
		d.Set("content", jinja.NewString(m.Content))
	}
	if m.Name != "" {
		d.Set("name", jinja.NewString(m.Name))
	}
	if m.ToolCallID != "" {
		d.Set("tool_call_id", jinja.NewString(m.ToolCallID))
	}
	if len(m.ToolCalls) == 0 {
		return v
	}
	calls := make([]jinja.Value, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		f := jinja.NewDict()
		f.AsDict().Set("name", jinja.NewString(c.Name))
		f.AsDict().Set("arguments", t.arguments(c.Arguments))
		call := jinja.NewDict()
		call.AsDict().Set("id", jinja.NewString(c.ID))
		call.AsDict().Set("type", jinja.NewString("function"))
		call.AsDict().Set("function", f)
		calls[i] = call
	}
	d.Set("tool_calls", jinja.NewList(calls))
	return v
}

// Templates disagree on two things that the API leaves open. Most show
// arguments with tojson or go through their items, and want an object; some
// put them into the text as they are, and want the API's string. Most treat a
// content that is missing as an empty text; some ask whether it is none.
var (
	argumentsText = regexp.MustCompile(`arguments['"\]\)]*\s*(\+|~|-?\}\})`)
	argumentsTree = regexp.MustCompile(`arguments['"\]\)]*\s*(\|\s*(tojson|items|dictsort)|\.items|is\s+(not\s+)?(mapping|string))|in\s+[a-z_.]*arg[a-z_]*(\.items|\s*\|\s*items)`)
	contentNone   = regexp.MustCompile(`content['"\]\)]*\s+is\s+(not\s+)?none`)
)

func (t *Template) arguments(text string) jinja.Value {
	if argumentsText.MatchString(t.source) && !argumentsTree.MatchString(t.source) {
		return jinja.NewString(text)
	}
	if v, err := jsonValue([]byte(text)); err == nil && v.IsDict() {
		return v
	}
	return jinja.NewString(text)
}

// jsonValue reads one JSON value and keeps the order of keys, which tojson
// shows.
func jsonValue(raw []byte) (jinja.Value, error) {
	if !json.Valid(raw) { // bounds the nesting, too
		return jinja.Value{}, io.ErrUnexpectedEOF
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return nextValue(d)
}

func nextValue(d *json.Decoder) (jinja.Value, error) {
	tok, err := d.Token()
	if err != nil {
		return jinja.Value{}, err
	}
	delim, nested := tok.(json.Delim)
	if !nested {
		if n, ok := tok.(json.Number); ok {
			if i, err := n.Int64(); err == nil {
				return jinja.NewInt(i), nil
			}
			f, err := n.Float64()
			return jinja.NewFloat(f), err
		}
		return jinja.FromGoValue(tok), nil
	}
	var list []jinja.Value
	dict := jinja.NewDict()
	for d.More() {
		key := ""
		if delim == '{' {
			k, err := d.Token()
			if err != nil {
				return jinja.Value{}, err
			}
			key, _ = k.(string)
		}
		v, err := nextValue(d)
		if err != nil {
			return jinja.Value{}, err
		}
		if delim == '{' {
			dict.AsDict().Set(key, v)
		} else {
			list = append(list, v)
		}
	}
	if _, err := d.Token(); err != nil {
		return jinja.Value{}, err
	}
	if delim == '{' {
		return dict, nil
	}
	return jinja.NewList(list), nil
}
