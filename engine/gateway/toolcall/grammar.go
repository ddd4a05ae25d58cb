package toolcall

import (
	"encoding/json"
	"errors"
	"strings"

	"neuron/engine/gateway/schema"
)

// Demand says what a grammar has to allow besides calls.
type Demand struct {
	// Text: an answer without calls is allowed, free or as Value says.
	Text bool
	// Value is a rule of the builder that stands for such an answer; "" is
	// free text.
	Value string
	// Parallel allows several calls.
	Parallel bool
}

// ArgumentError says which tool's parameters have no grammar.
type ArgumentError struct {
	Tool int
	Err  error
}

// Error names the place in the tool's schema.
func (e *ArgumentError) Error() string { return e.Err.Error() }

// Unwrap gives the schema's error.
func (e *ArgumentError) Unwrap() error { return e.Err }

// Grammar is the GBNF of answers that are calls of these tools, and of what d
// allows. Arguments match the tools' parameters; those whose schema cannot be
// kept take any object unless the tool is strict. Errors: *ArgumentError.
func (f Form) Grammar(b *schema.Builder, tools []Tool, d Demand) (string, error) {
	var bodies []string
	args := func(t Tool) (string, error) { return arguments(b, t) }
	if f.tags != nil {
		args = newTagGrammar(b, f.tags).arguments
	}
	for i, t := range tools {
		args, err := args(t)
		if err != nil {
			return "", &ArgumentError{Tool: i, Err: err}
		}
		bodies = append(bodies, f.body(b, t.Name, args))
	}
	if f.Channels() {
		return f.channels(b, b.Add(strings.Join(bodies, " | ")), d)
	}
	ws := b.Space()
	rest := b.Add(strings.Join(bodies, " | ")) // what stands behind the mark
	if f.list {
		list := `"[" ` + rest
		if d.Parallel {
			list += " " + b.Add(`"," `+ws+" "+rest) + "{0,15}"
		}
		rest = b.Add(strings.TrimSpace(list + ` "]" ` + literalOr(f.end)))
	}
	some := rest
	if f.open != "" {
		some = b.Add(schema.Literal(f.open) + " " + rest)
		if d.Parallel && !f.list {
			some = b.Add(some + " " + b.Add(ws+" "+some) + "{0,15}")
		}
	}
	switch {
	case !d.Text:
		return b.Grammar(some)
	case d.Value != "":
		return b.Grammar(d.Value + " | " + some)
	case f.open == "":
		return b.Grammar(`[^{ \t\r\n] [^\x00]* | ` + some + ` | ""`)
	}
	return b.Grammar(f.freeText(b, rest))
}

// Enforced is the form of answers that a grammar of free text and calls holds
// to: plain JSON is text there.
func (f Form) Enforced() Form {
	f.bare = f.bare && f.open == ""
	return f
}

// arguments is the rule of a tool's arguments.
func arguments(b *schema.Builder, t Tool) (string, error) {
	if len(t.Parameters) == 0 {
		return b.Object(), nil
	}
	rule, err := b.Schema(asObject(t.Parameters))
	var serr *schema.Error
	if err != nil && !t.Strict && errors.As(err, &serr) && serr.Unsupported {
		return b.Object(), nil
	}
	return rule, err
}

// asObject adds the type that parameters have in any case.
func asObject(raw json.RawMessage) json.RawMessage {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m["type"] != nil || m["$ref"] != nil {
		return raw
	}
	return json.RawMessage(`{"type":"object",` + strings.TrimSpace(string(raw))[1:])
}

// body is one call without its opening mark, or an element of a list.
func (f Form) body(b *schema.Builder, name, args string) string {
	if f.tags != nil {
		return b.Add(schema.Literal(f.tags.opening(name)) + " " + args + " " + schema.Literal(f.end))
	}
	if f.Channels() {
		return b.Add(schema.Literal(name+callBody) + " " + args)
	}
	if f.sep != "" {
		return b.Add(strings.TrimSpace(schema.Literal(name+f.sep) + " " + args + " " + literalOr(f.end)))
	}
	quoted, err := json.Marshal(name)
	if err != nil {
		quoted = []byte(`""`) // a string always encodes
	}
	before := f.gap + `{"name": ` + string(quoted) + `, "` + f.args + `": `
	if f.keyed {
		before = "{" + string(quoted) + ": "
	}
	object := schema.Literal(before) + " " + args + " " + schema.Literal("}"+f.gap)
	if f.list || f.open == "" {
		return b.Add(object)
	}
	return b.Add(strings.TrimSpace(object + " " + literalOr(f.end)))
}

func literalOr(s string) string {
	if s == "" {
		return ""
	}
	return schema.Literal(s)
}

// freeText admits any text, and behind each opening mark nothing but a call
// (rest is what follows the mark).
func (f Form) freeText(b *schema.Builder, rest string) string { return search(b, f.open, rest, true) }

// search admits a text up to mark, then rest. With again the text goes on
// behind that, and may end without the mark. It is the automaton that looks for
// the mark, one rule a state: state i has seen the mark's first i characters.
func search(b *schema.Builder, text, rest string, again bool) string {
	mark := []rune(text)
	states := make([]string, len(mark))
	for i := range states {
		states[i] = b.Reserve()
	}
	for i := range mark {
		var alts []string
		if again {
			alts = []string{`""`}
		}
		class := ""
		seen := map[rune]bool{}
		for _, c := range mark {
			to := border(mark, mark[:i], c)
			if seen[c] || to == 0 {
				continue
			}
			seen[c] = true
			class += schema.ClassRune(c)
			alt := schema.Literal(string(c))
			switch {
			case to < len(mark):
				alt += " " + states[to]
			case again:
				alt += " " + rest + " " + states[0]
			default:
				alt = strings.TrimSpace(alt + " " + rest)
			}
			alts = append(alts, alt)
		}
		alts = append(alts, `[^\x00`+class+"] "+states[0])
		b.Define(states[i], strings.Join(alts, " | "))
	}
	return states[0]
}

// border is the length of the longest beginning of mark that ends read+c.
func border(mark, read []rune, c rune) int {
	text := string(read) + string(c)
	for n := len(read) + 1; n > 0; n-- {
		if strings.HasSuffix(text, string(mark[:n])) {
			return n
		}
	}
	return 0
}
