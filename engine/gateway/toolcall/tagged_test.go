package toolcall

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/gateway/schema"
)

// editTool has an argument of each kind.
var editTool = Tool{Name: "edit", Parameters: json.RawMessage(`{"type":"object","$defs":{"N":{"type":"integer"}},"properties":{
	"text":{"type":"string"}, "n":{"$ref":"#/$defs/N"}, "on":{"type":"boolean"}, "list":{"type":"array","items":{"type":"string"}},
	"maybe":{"anyOf":[{"type":"string"},{"type":"null"}]}, "mode":{"enum":["a","b"]}},"required":["text","n"]}`)}

// TestParseTags reads calls of tags and of keys, whole and character by
// character.
func TestParseTags(t *testing.T) {
	t.Parallel()
	coder := func(params ...string) string {
		s := "<tool_call>\n<function=edit>\n"
		for i := 0; i < len(params); i += 2 {
			s += "<parameter=" + params[i] + ">\n" + params[i+1] + "\n</parameter>\n"
		}
		return s + "</function>\n</tool_call>"
	}
	edit := func(text, args string) answer { return answer{text, [][2]string{{"edit", args}}, 1} }
	for _, tc := range []struct {
		name string
		f    Form
		text string
		want answer
	}{
		{"a string keeps its lines", qwenCoder, "See:\n" + coder("text", "if a < \"b\" {\n\t</param\n}\n"), edit("See:", `{"text": "if a < \"b\" {\n\t</param\n}\n"}`)},
		{"kinds by schema", qwenCoder, coder("n", "5", "on", "True", "list", `["x", "</a>"]`, "maybe", "null", "mode", "a"),
			edit("", `{"n": 5, "on": true, "list": ["x", "</a>"], "maybe": null, "mode": "a"}`)},
		{"a string stays one", qwenCoder, coder("text", "5", "maybe", "7", "other", "true"), edit("", `{"text": "5", "maybe": "7", "other": "true"}`)},
		{"quotes belong to a string", qwenCoder, coder("text", `"x"`, "maybe", `"x"`), edit("", `{"text": "\"x\"", "maybe": "\"x\""}`)},
		{"not what the schema says", qwenCoder, coder("n", "many\x01", "list", "[1, "), edit("", `{"n": "many\u0001", "list": "[1, "}`)},
		{"empty values", qwenCoder, coder("text", "", "n", ""), edit("", `{"text": "", "n": ""}`)},
		{"no parameters", qwenCoder, coder(), edit("", "{}")},
		{"on one line", qwenCoder, "<tool_call><function=edit><parameter=text>a</parameter></function></tool_call>", edit("", `{"text": "a"}`)},
		{"without the function's end", qwenCoder, "<tool_call><function=edit><parameter=text>a</parameter></tool_call> ok", edit(" ok", `{"text": "a"}`)},
		{"without the call's end", qwenCoder, "<tool_call><function=edit></function>\nok", edit("\nok", "{}")},
		{"rubbish between parameters", qwenCoder, "<tool_call><function=edit><parameter=text>a</parameter> and <parameter=n>", edit(" and <parameter=n>", `{"text": "a"}`)},
		{"JSON in its place", qwenCoder, `a <tool_call>{"name": "now"}</tool_call>`, answer{Text: `a <tool_call>{"name": "now"}</tool_call>`}},
		{"a name that is none", qwenCoder, "<tool_call><function=a b></tool_call>", answer{Text: "<tool_call><function=a b></tool_call>"}},
		{"a name without an end", qwenCoder, "<tool_call><function=" + strings.Repeat("x", 300), answer{Text: "<tool_call><function=" + strings.Repeat("x", 300)}},
		{"a key without an end", qwenCoder, "<tool_call><function=edit><parameter=" + strings.Repeat("x", 300), edit("<parameter="+strings.Repeat("x", 300), "{}")},
		{"cut in a value", qwenCoder, "<tool_call><function=edit><parameter=text>\nab\n</par", edit("", `{"text": "ab`)},
		{"two", qwenCoder, coder("n", "1") + "\n" + coder("n", "2"), answer{"", [][2]string{{"edit", `{"n": 1}`}, {"edit", `{"n": 2}`}}, 2}},
		{"seed", seed, "<seed:tool_call>\n<function=edit>\n<parameter=text>\na\n</parameter>\n<parameter=list>['it\\'s', \"b\", None]</parameter>\n</function>\n</seed:tool_call>",
			edit("", `{"text": "\na\n", "list": ["it's", "b", null]}`)},
		{"seed, Python without an end", seed, "<seed:tool_call><function=edit><parameter=list>['a</parameter></function></seed:tool_call>", edit("", `{"list": "['a"}`)},
		{"glm", glm, "Hm.\n<tool_call>edit\n<arg_key>text</arg_key>\n<arg_value>a\n</arg_value>\n<arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
			edit("Hm.", `{"text": "a\n", "n": 3}`)},
		{"glm on one line", glm, "<tool_call>now</tool_call><tool_call>edit<arg_key>n</arg_key><arg_value>3</arg_value></tool_call>",
			answer{"", [][2]string{{"now", "{}"}, {"edit", `{"n": 3}`}}, 2}},
		{"glm, no call", glm, "<tool_call>oh no</tool_call>", answer{Text: "<tool_call>oh no</tool_call>"}},
		{"glm, a key without a value", glm, "<tool_call>now<arg_key>a</arg_key>b</tool_call>", answer{"<arg_key>a</arg_key>b</tool_call>", [][2]string{{"now", "{}"}}, 1}},
		{"apertus", apertus, `Hm.<|tools_prefix|>[{"edit": {"text": "}\"", "n": 1}}, {"now": {}}]<|tools_suffix|>`,
			answer{"Hm.", [][2]string{{"edit", `{"text": "}\"", "n": 1}`}, {"now", "{}"}}, 2}},
		{"apertus, text behind", apertus, `<|tools_prefix|>[{"now": {}}] <|tools_suffix|> ok`, answer{" ok", [][2]string{{"now", "{}"}}, 1}},
		{"apertus, no end", apertus, `<|tools_prefix|>[{"now": {}}] ok`, answer{" ok", [][2]string{{"now", "{}"}}, 1}},
		{"apertus, no call", apertus, `<|tools_prefix|>[{"now": 1}]<|tools_suffix|>`, answer{Text: `<|tools_prefix|>[{"now": 1}]<|tools_suffix|>`}},
		{"apertus, cut", apertus, `<|tools_prefix|>[{"now": {"a": [`, answer{"", [][2]string{{"now", `{"a": [`}}, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, pieces := range [][]string{{tc.text}, chars(tc.text)} {
				if diff := cmp.Diff(tc.want, gather(t, NewParser(tc.f, append(tools, editTool)), pieces)); diff != "" {
					t.Errorf("%d pieces: %s", len(pieces), diff)
				}
			}
		})
	}
}

// TestTaggedStringsStream: a string does not wait for its end, and never shows
// a beginning of the tag that closes it.
func TestTaggedStringsStream(t *testing.T) {
	t.Parallel()
	p := NewParser(qwenCoder, []Tool{editTool})
	if got := p.Feed("<tool_call>\n<function=edit>"); len(got) != 1 || got[0].Name != "edit" || got[0].Args != "{" {
		t.Errorf("%+v", got)
	}
	for _, tc := range [][2]string{{"\n<parameter=text>", `"text": "`}, {"\nab\n</", "ab"}, {"p", ""}, {">c", `\n</p>c`}, {"\n</parameter>\n<parameter=n>1", `", "n": `}, {"2", ""}, {"</parameter>", "12"}} {
		args := ""
		for _, e := range p.Feed(tc[0]) {
			args += e.Args
		}
		if args != tc[1] {
			t.Errorf("%q gives %q, want %q", tc[0], args, tc[1])
		}
	}
}

// TestTaggedValueBound: a value that does not end is not kept whole.
func TestTaggedValueBound(t *testing.T) {
	t.Parallel()
	p := NewParser(glm, []Tool{editTool})
	piece := strings.Repeat("1", 1<<16)
	size := 0
	p.Feed("<tool_call>edit<arg_key>n</arg_key><arg_value>")
	for range maxValue>>16 + 1 {
		for _, e := range p.Feed(piece) {
			size += len(e.Args)
		}
	}
	if want := maxValue + 1<<16 + 1; size != want {
		t.Errorf("%d bytes were sent, want %d", size, want)
	}
}

// TestTagGrammars: what strict tools ask of strings, tags can keep or not.
func TestTagGrammars(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ schema, has, err string }{
		{`{"type":"string"}`, "", ""},
		{`{"type":["string","null"],"description":"x"}`, "", ""},
		{`{"enum":["red","blue"]}`, `"red" | "blue"`, ""},
		{`{"type":"array","items":{"$ref":"#/$defs/N"}}`, `"7"`, ""},
		{`{"$ref":"#/$defs/S"}`, "", ""},
		{`{"enum":["red",null]}`, "", "at /properties/a"},
		{`{"enum":["</parameter>"]}`, "", "at /properties/a"},
		{`{"type":"string","minLength":2}`, "", "at /properties/a"},
		{`{"anyOf":[{"type":"string"},{"type":"array"}]}`, "", "at /properties/a"},
		{`{"enum":["red","blue"],"maxLength":3}`, "", "at /properties/a"},
		{`{"not":{}}`, "", `"not" at /properties/a`},
	} {
		one := Tool{Name: "one", Parameters: json.RawMessage(`{"type":"object","$defs":{"N":{"const":7},"S":{"type":"string"}},"properties":{"a":` + tc.schema + `},"required":["a"],"additionalProperties":false}`)}
		if _, err := qwenCoder.Grammar(schema.NewBuilder(), []Tool{one}, Demand{}); err != nil {
			t.Errorf("%s, not strict: %v", tc.schema, err)
		}
		one.Strict = true
		g, err := qwenCoder.Grammar(schema.NewBuilder(), []Tool{one}, Demand{})
		var serr *schema.Error
		switch {
		case tc.err == "" && (err != nil || !strings.Contains(g, tc.has)):
			t.Errorf("%s: %v, %s", tc.schema, err, g)
		case tc.err != "" && (!errors.As(err, &serr) || !serr.Unsupported || !strings.Contains(err.Error(), tc.err)):
			t.Errorf("%s: %v, want %s", tc.schema, err, tc.err)
		}
	}
}

// TestDetectUnknownTags: tags that stand in no known call are not guessed at.
func TestDetectUnknownTags(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"<arg_key>", "<function=x><parameter=y>", "<seed:tool_call>{}"} {
		if f, why, ok := Detect("{{ tools }}" + s); ok || why == "" {
			t.Errorf("%s: %s, %q", s, f.Name, why)
		}
	}
}

// TestCallText: calls of earlier turns are written as the parser reads them.
func TestCallText(t *testing.T) {
	t.Parallel()
	const args = `{"text": "a\n\"b\"", "n": 5, "list": ["x"]}`
	for _, f := range []Form{hermes, mistral, mistralArgs, granite, functionary, deepseek, qwenCoder, seed, glm, apertus, generic} {
		text := f.CallText("edit", json.RawMessage(args))
		want := answer{Calls: [][2]string{{"edit", args}}, Ended: 1}
		if diff := cmp.Diff(want, gather(t, NewParser(f, []Tool{editTool}), []string{text})); diff != "" {
			t.Errorf("%s: %q: %s", f.Name, text, diff)
		}
	}
}
