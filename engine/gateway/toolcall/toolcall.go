// Package toolcall knows how models write tool calls: which form a chat
// template teaches, how its text becomes calls while it streams, which grammar
// forces a call, and how tools are told to a model whose template knows none.
//
// It works on text: no tokens, no HTTP, no templates run. engine/gateway
// imports it; it imports gateway/schema.
package toolcall

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Tool is one function that a request offers.
type Tool struct {
	Name        string
	Description string
	// Parameters is a JSON schema; empty for "any object".
	Parameters json.RawMessage
	// Strict asks that arguments always match Parameters.
	Strict bool
}

// Form is the way in which a family of models writes calls.
type Form struct {
	// Name is for documents and logs.
	Name string
	// open begins a call, or a list of calls; "" for a form that is JSON from
	// the answer's first character. end closes it and may be "".
	open, end string
	// list: a JSON list of calls stands between open and end.
	list bool
	// sep stands between name and arguments where they are not one JSON
	// object.
	sep string
	// tags is set where the call is tags, a pair for each argument.
	tags *tags
	// keyed: the name is the key of the arguments.
	keyed bool
	// args is the key of the arguments.
	args string
	// bare says that an answer which is a call as plain JSON counts, too.
	bare bool
	// shortIDs: the family's templates take call ids of nine characters only.
	shortIDs bool
	// gap stands between open and the call, and between the call and end, in
	// what the model was trained on.
	gap string
	// Taught: the template says nothing of tools, so that Teach has to.
	Taught bool
}

// The forms that are read and written.
var (
	hermes      = Form{Name: "hermes", open: "<tool_call>", end: "</tool_call>", args: "arguments", gap: "\n"}
	llama3      = Form{Name: "llama-3", args: "parameters", bare: true}
	mistral     = Form{Name: "mistral", open: "[TOOL_CALLS]", list: true, args: "arguments", shortIDs: true}
	mistralArgs = Form{Name: "mistral-args", open: "[TOOL_CALLS]", sep: "[ARGS]", shortIDs: true}
	granite     = Form{Name: "granite", open: "<|tool_call|>", list: true, args: "arguments"}
	functionary = Form{Name: "functionary", open: "<function=", end: "</function>", sep: ">"}
	deepseek    = Form{Name: "deepseek", open: "<｜tool▁call▁begin｜>", end: "<｜tool▁call▁end｜>", sep: "<｜tool▁sep｜>"}
	qwenCoder   = Form{Name: "qwen3-coder", open: "<tool_call>", end: "</tool_call>", tags: &parameterTags}
	seed        = Form{Name: "seed-oss", open: "<seed:tool_call>", end: "</seed:tool_call>", tags: &seedTags}
	glm         = Form{Name: "glm", open: "<tool_call>", end: "</tool_call>", tags: &argTags}
	apertus     = Form{Name: "apertus", open: "<|tools_prefix|>", end: "<|tools_suffix|>", list: true, keyed: true}
	harmony     = Form{Name: "harmony"}
	generic     = Form{Name: "generic", open: "<tool_call>", end: "</tool_call>", args: "arguments", gap: "\n", bare: true, Taught: true}
)

// Detect finds the form that a template teaches. ok is false for a template
// that knows tools in a form that is not read here; why names it.
func Detect(template string) (f Form, why string, ok bool) {
	has := func(s string) bool { return strings.Contains(template, s) }
	switch {
	case has(markChannel) && has(markMessage):
		return harmony, "", true
	case !knowsTools.MatchString(template):
		return generic, "", true
	case has("[TOOL_CALLS]") && has("[ARGS]"):
		return mistralArgs, "", true
	case has("[TOOL_CALLS]"):
		return mistral, "", true
	case has("<seed:tool_call>") && has("<parameter="):
		return seed, "", true
	case has("<tool_call>") && has("<parameter="):
		return qwenCoder, "", true
	case has("<tool_call>") && has("<arg_key>"):
		return glm, "", true
	case has("<|tools_prefix|>"):
		return apertus, "", true
	case has("<parameter=") || has("<arg_key>") || has("<seed:tool_call>"):
		return f, "calls as tags of its own", false
	case has("<|tool_call|>"):
		return granite, "", true
	case has("<tool_call>"):
		return hermes, "", true
	case has("<function="):
		return functionary, "", true
	case has("<｜tool▁sep｜>") && !has("```json"):
		return deepseek, "", true
	case has("<|python_tag|>") || has("ipython") || has(`"parameters"`):
		return llama3, "", true
	}
	return f, "calls in a form of its own", false
}

// knowsTools tells templates that look at the request's tools.
var knowsTools = regexp.MustCompile(`\btools\b`)

// Markers are texts that the form may write as control tokens, whose text is
// not part of an answer otherwise: the caller has to put it there.
func (f Form) Markers() []string {
	if f.Channels() {
		return slices.Clone(channelMarks)
	}
	var out []string
	for _, s := range []string{f.open, f.sep, f.end} {
		if strings.HasPrefix(s, "<") && strings.HasSuffix(s, ">") || strings.HasPrefix(s, "[") && strings.HasSuffix(s, "]") {
			out = append(out, s)
		}
	}
	if f.tags == &argTags {
		out = append(out, f.tags.key, f.tags.keyEnd, f.tags.value, f.tags.valueEnd)
	}
	switch f.Name {
	case mistralArgs.Name:
		out = append(out, callID)
	case llama3.Name:
		out = append(out, pythonTag)
	}
	return out
}

const (
	callID    = "[CALL_ID]"
	pythonTag = "<|python_tag|>"
)

// IDLength is how many characters a call's id has behind its prefix.
func (f Form) IDLength() (prefix string, n int) {
	if f.shortIDs {
		return "", 9
	}
	return "call_", 24
}

// Teach is the text that tells a model about tools whose template does not:
// for the system message.
func Teach(tools []Tool) string {
	var b strings.Builder
	b.WriteString("You may call functions to help with the request. These exist, one JSON object a line:\n<tools>\n")
	for _, t := range tools {
		b.Write(t.JSON())
		b.WriteByte('\n')
	}
	b.WriteString("</tools>\nTo call one, answer with a JSON object of its name and its arguments, and nothing else:\n" +
		"<tool_call>\n{\"name\": \"function name\", \"arguments\": {\"argument\": \"value\"}}\n</tool_call>")
	return b.String()
}

// JSON is the tool as OpenAI's API and chat templates write it. Parameters and
// their properties are always there: templates go through them.
func (t Tool) JSON() json.RawMessage {
	var b strings.Builder
	b.WriteString(`{"type": "function", "function": {"name": `)
	str := func(s string) {
		var one strings.Builder
		e := json.NewEncoder(&one)
		e.SetEscapeHTML(false)
		_ = e.Encode(s) // a string always encodes
		b.WriteString(strings.TrimSuffix(one.String(), "\n"))
	}
	str(t.Name)
	if t.Description != "" {
		b.WriteString(`, "description": `)
		str(t.Description)
	}
	b.WriteString(`, "parameters": `)
	var m map[string]json.RawMessage
	switch {
	case len(t.Parameters) == 0:
		b.WriteString(`{"type": "object", "properties": {}}`)
	case json.Unmarshal(t.Parameters, &m) == nil && len(m) > 0 && m["properties"] == nil:
		b.WriteString(strings.TrimSuffix(strings.TrimSpace(string(t.Parameters)), "}") + `, "properties": {}}`)
	default:
		b.Write(t.Parameters)
	}
	b.WriteString("}}")
	return json.RawMessage(b.String())
}

// CallText is a call of an earlier turn in this form, for templates that do not
// show them.
func (f Form) CallText(name string, arguments json.RawMessage) string {
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if f.Channels() {
		return callHeader + name + callBody + string(arguments) + markCall
	}
	if f.tags != nil {
		return f.tags.text(f.open, f.end, name, arguments)
	}
	if f.sep != "" {
		return f.open + name + f.sep + string(arguments) + f.end
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		quoted = []byte(`""`) // a string always encodes
	}
	object := `{"name": ` + string(quoted) + `, "` + f.args + `": ` + string(arguments) + "}"
	if f.keyed {
		object = "{" + string(quoted) + ": " + string(arguments) + "}"
	}
	if f.list {
		object = "[" + object + "]"
	}
	return f.open + f.gap + object + f.gap + f.end
}

// AnswerText is what a tool answered, as a user's message, for templates that do
// not know tools.
func AnswerText(content string) string { return "<tool_response>\n" + content + "\n</tool_response>" }
