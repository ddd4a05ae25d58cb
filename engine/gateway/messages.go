package gateway

import (
	"encoding/json"
	"fmt"
	"regexp"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
)

// namePattern is what message names may be: nothing that could hold the text
// of a control token.
var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// messages reads the conversation. Text parts of one message are joined by a
// newline, as llama.cpp's server does.
func (f *fields) messages() []chattmpl.Message {
	var raw []map[string]json.RawMessage
	if !f.decode("messages", &raw, "a list of objects") {
		f.fail(badParam("messages", "messages is missing"))
		return nil
	}
	if len(raw) == 0 || len(raw) > maxMessages {
		f.fail(badParam("messages", "1 to %d messages are allowed", maxMessages))
		return nil
	}
	out := make([]chattmpl.Message, len(raw))
	for i, m := range raw {
		at := fmt.Sprintf("messages[%d]", i)
		if m == nil {
			f.fail(badParam(at, "%s must be an object", at))
			return nil
		}
		mf := &fields{raw: m}
		for k, v := range m {
			if string(v) == "null" {
				delete(m, k)
			}
		}
		msg, err := mf.message()
		if err != nil {
			if err.Param != "" {
				at += "." + err.Param
			}
			err.Param = at
			f.fail(err)
			return nil
		}
		out[i] = msg
	}
	return out
}

func (f *fields) message() (chattmpl.Message, *protocol.Error) {
	m := chattmpl.Message{Role: f.str("role"), Name: f.str("name")}
	if f.err != nil {
		return m, f.err
	}
	switch m.Role {
	case "system", "user", "assistant", "tool":
	case "developer":
		m.Role = "system"
	default:
		return m, badParam("role", "role must be system, developer, user, assistant or tool")
	}
	if m.Name != "" && !namePattern.MatchString(m.Name) {
		return m, badParam("name", "name must match %s", namePattern)
	}
	f.refuse("function_call", "audio")
	if f.has("tool_calls") && m.Role != "assistant" {
		f.fail(badParam("tool_calls", "only an assistant's message has tool_calls"))
	}
	if m.Role == "tool" {
		if m.ToolCallID = f.str("tool_call_id"); f.err == nil && !namePattern.MatchString(m.ToolCallID) {
			f.fail(badParam("tool_call_id", "a tool's message needs the tool_call_id of the call that it answers"))
		}
	}
	calls, err := f.calls()
	if f.err == nil && err != nil {
		f.err = err
	}
	if f.err != nil {
		return m, f.err
	}
	for _, c := range calls {
		m.ToolCalls = append(m.ToolCalls, chattmpl.ToolCall{ID: c.ID, Name: c.Function.Name, Arguments: c.Function.Arguments})
	}
	raw, ok := f.raw["content"]
	if !ok {
		if m.NoContent = len(calls) > 0; m.NoContent {
			return m, nil
		}
		if raw, ok = f.raw["refusal"]; !ok || m.Role != "assistant" {
			return m, badParam("content", "content is missing")
		}
	}
	if json.Unmarshal(raw, &m.Content) == nil {
		return m, nil
	}
	var parts []struct {
		Type    string  `json:"type"`
		Text    *string `json:"text"`
		Refusal *string `json:"refusal"`
	}
	if json.Unmarshal(raw, &parts) != nil || len(parts) == 0 {
		return m, badParam("content", "content must be a string or a list of text parts")
	}
	for i, p := range parts {
		switch {
		case p.Type == "refusal" && m.Role == "assistant" && p.Refusal != nil:
			p.Text = p.Refusal
		case p.Type != "text":
			e := unsupported("content")
			e.Message = "only text parts are supported here"
			return m, e
		case p.Text == nil:
			return m, badParam("content", "a text part needs a text")
		}
		if i > 0 {
			m.Content += "\n"
		}
		if p.Text != nil {
			m.Content += *p.Text
		}
	}
	return m, nil
}

// templateVars reads chat_template_kwargs: booleans, numbers and words, so
// that no control token can come in this way either.
func (f *fields) templateVars() map[string]any {
	var vars map[string]any
	effort := f.str("reasoning_effort") // some templates know it
	if !f.decode("chat_template_kwargs", &vars, "an object") && effort == "" {
		return nil
	}
	if vars == nil {
		vars = map[string]any{}
	}
	if _, given := vars["reasoning_effort"]; effort != "" && !given {
		vars["reasoning_effort"] = effort
	}
	if len(vars) > maxTemplateKV {
		f.fail(badParam("chat_template_kwargs", "at most %d template variables are allowed", maxTemplateKV))
		return nil
	}
	for k, v := range vars {
		s, isString := v.(string)
		_, isBool := v.(bool)
		_, isNumber := v.(float64)
		if !namePattern.MatchString(k) || !isBool && !isNumber && !(isString && namePattern.MatchString(s)) {
			name := "chat_template_kwargs"
			if k == "reasoning_effort" && v == any(effort) {
				name = k
			}
			f.fail(badParam(name, "template variables must be booleans, numbers or single words"))
			return nil
		}
	}
	return vars
}
