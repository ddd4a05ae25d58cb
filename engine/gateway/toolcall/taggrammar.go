package toolcall

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"neuron/engine/gateway/schema"
)

// tagGrammar makes the rules of calls that are written as tags.
type tagGrammar struct {
	b     *schema.Builder
	t     *tags
	text  string // a text up to its closing tag, and the line's end
	after string // literal of what follows any other value
}

func newTagGrammar(b *schema.Builder, t *tags) *tagGrammar {
	text := b.Add(search(b, t.valueEnd, "", false) + ` "\n"`)
	return &tagGrammar{b: b, t: t, text: text, after: schema.Literal(t.pad + t.valueEnd + "\n")}
}

// arguments is the rule of a tool's arguments with the tag that closes them.
func (g *tagGrammar) arguments(tool Tool) (string, error) {
	// What is wrong with a schema is told as for any other form.
	if _, err := arguments(schema.NewBuilder(), tool); err != nil {
		return "", err
	}
	p := propertiesOf(tool.Parameters)
	if tool.Strict {
		for _, k := range []string{"$ref", "anyOf", "oneOf", "allOf", "enum", "const", "patternProperties", "propertyNames", "minProperties", "maxProperties"} {
			if p.root[k] != nil {
				return "", unkept("", k, "it cannot be kept in the form in which this model calls tools")
			}
		}
	}
	var required []string
	if raw := p.root["required"]; raw != nil {
		if err := json.Unmarshal(raw, &required); err != nil {
			return "", err // the schema was read before
		}
	}
	declared := func(name string) bool {
		return slices.ContainsFunc(p.list, func(m member) bool { return m.name == name })
	}
	for _, name := range required {
		if tool.Strict && !declared(name) {
			return "", unkept("", "required", "a name in it is not in properties")
		}
	}
	optional := 0
	var parts []string
	for _, m := range p.list {
		value, err := g.value(p, m, tool.Strict)
		if err != nil {
			return "", err
		}
		rule := g.b.Add(schema.Literal(g.t.before(m.name)) + " " + value)
		if !slices.Contains(required, m.name) {
			rule += "?"
			optional++
		}
		parts = append(parts, rule)
	}
	if tool.Strict && optional > schema.MaxChoices {
		return "", unkept("", "properties", "too many of them are optional")
	}
	if len(parts) == 0 && !tool.Strict || optional > schema.MaxChoices {
		parts = []string{g.b.Add(schema.Literal(g.t.key)+" [a-zA-Z0-9_.-]{1,64} "+
			schema.Literal(strings.TrimPrefix(g.t.before(""), g.t.key))+" "+g.text) + "*"}
	}
	if g.t.end != "" {
		parts = append(parts, schema.Literal(g.t.end+"\n"))
	}
	return g.b.Add(strings.TrimSpace(strings.Join(append(parts, `""`), " "))), nil
}

// value is the rule of an argument's value with what closes it. A string stands
// without quotes, so that only lists of its values can be kept of its schema.
func (g *tagGrammar) value(p properties, m member, strict bool) (string, error) {
	kinds := p.kinds(m.name)
	if len(kinds) > 0 && !slices.Contains(kinds, "string") {
		rule, err := g.b.Schema(p.standalone(m.value))
		var serr *schema.Error
		switch {
		case errors.As(err, &serr) && serr.Unsupported && !strict:
			rule = g.b.Value()
		case err != nil:
			return "", err
		}
		return rule + " " + g.after, nil
	}
	// A text with the closing tag in it would end there.
	cut := func(s string) bool { return strings.Index(s+g.t.valueEnd, g.t.valueEnd) < len(s) }
	list := p.texts(m.value, 8)
	if len(kinds) == 1 && len(list) > 0 && len(list) <= schema.MaxChoices && !slices.ContainsFunc(list, cut) &&
		(!strict || p.anyText(m.value, 8, true)) {
		var alts []string
		for _, s := range list {
			alts = append(alts, schema.Literal(s))
		}
		return g.b.Add(strings.Join(alts, " | ")) + " " + g.after, nil
	}
	if strict && !p.anyText(m.value, 8, false) {
		return "", unkept("/properties/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(m.name), "",
			"the form in which this model calls tools has no quotes, and strings in it cannot be limited other than by enum")
	}
	return g.text, nil
}

func unkept(pointer, keyword, reason string) error {
	return &schema.Error{Pointer: pointer, Keyword: keyword, Reason: reason, Unsupported: true}
}
