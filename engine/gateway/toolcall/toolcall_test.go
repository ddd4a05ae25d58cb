package toolcall

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/gateway/schema"
)

var tools = []Tool{{Name: "get_weather", Description: "Weather", Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}, {Name: "now"}}

// answer gathers events: text, and calls as name and arguments.
type answer struct {
	Text  string
	Calls [][2]string
	Ended int
}

func gather(t *testing.T, p *Parser, pieces []string) (a answer) {
	t.Helper()
	take := func(es []Event) {
		for _, e := range es {
			switch {
			case e.Text != "":
				a.Text += e.Text
			case e.Name != "":
				if e.Call != len(a.Calls) {
					t.Errorf("call %d comes after %d", e.Call, len(a.Calls))
				}
				a.Calls = append(a.Calls, [2]string{e.Name, e.Args})
			default:
				a.Calls[e.Call][1] += e.Args
			}
			if e.End {
				a.Ended++
			}
		}
	}
	for _, s := range pieces {
		take(p.Feed(s))
	}
	take(p.Finish())
	return a
}

func chars(s string) (out []string) {
	for _, r := range s {
		out = append(out, string(r))
	}
	return out
}

// TestParse reads whole and character by character; both come to the same.
func TestParse(t *testing.T) {
	t.Parallel()
	call := func(name, args string) [2]string { return [2]string{name, args} }
	for _, tc := range []struct {
		name string
		f    Form
		text string
		want answer
	}{
		{"text", hermes, "Just <tool> text.\n", answer{Text: "Just <tool> text."}},
		{"one", hermes, "Let me see.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"a}\\\"b\", \"n\": [1, {}]}}\n</tool_call>",
			answer{"Let me see.", [][2]string{call("get_weather", `{"city": "a}\"b", "n": [1, {}]}`)}, 1}},
		{"two", hermes, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>\n<tool_call>{\"arguments\": {\"city\": \"x\"}, \"name\": \"get_weather\"}</tool_call> done",
			answer{" done", [][2]string{call("now", "{}"), call("get_weather", `{"city": "x"}`)}, 2}},
		{"arguments as a string", hermes, `<tool_call>{"name": "now", "arguments": "{\"a\": 1}"}</tool_call>`, answer{"", [][2]string{call("now", `{"a": 1}`)}, 1}},
		{"no arguments", hermes, `<tool_call>{"name": "now"}</tool_call>`, answer{"", [][2]string{call("now", "{}")}, 1}},
		{"not JSON", hermes, "a <tool_call>oh no</tool_call> b", answer{Text: "a <tool_call>oh no</tool_call> b"}},
		{"cut", hermes, `<tool_call>{"name": "now", "arguments": {"a": `, answer{"", [][2]string{call("now", `{"a": `)}, 1}},
		{"cut early", hermes, "x <tool_call>{\"na", answer{Text: "x <tool_call>{\"na"}},
		{"half a mark", hermes, "x <tool_ca", answer{Text: "x <tool_ca"}},
		{"without its end", hermes, `<tool_call>{"name": "now", "arguments": {}} and more`, answer{" and more", [][2]string{call("now", "{}")}, 1}},
		{"llama", llama3, `{"name": "get_weather", "parameters": {"city": "x"}}`, answer{"", [][2]string{call("get_weather", `{"city": "x"}`)}, 1}},
		{"llama with a tag", llama3, `<|python_tag|>{"type": "function", "name": "now", "parameters": {}}`, answer{"", [][2]string{call("now", `{}`)}, 1}},
		{"llama, other JSON", llama3, ` {"name": "Bob", "age": 3}`, answer{Text: ` {"name": "Bob", "age": 3}`}},
		{"llama, text", llama3, "The weather {is} fine", answer{Text: "The weather {is} fine"}},
		{"mistral", mistral, `[TOOL_CALLS] [{"name": "now", "arguments": {}}, {"name": "get_weather", "arguments": {"city": "x"}, "id": "abcdefghi"}]`,
			answer{"", [][2]string{call("now", "{}"), call("get_weather", `{"city": "x"}`)}, 2}},
		{"mistral, no list", mistral, `[TOOL_CALLS] sorry`, answer{Text: `[TOOL_CALLS] sorry`}},
		{"mistral, nothing behind the mark", mistral, `Hm [TOOL_CALLS] [ `, answer{Text: `Hm [TOOL_CALLS] [`}},
		{"mistral, a list that does not end", mistral, `[TOOL_CALLS][{"name": "now", "arguments": {}}, `, answer{"", [][2]string{call("now", "{}")}, 1}},
		{"mistral with marks", mistralArgs, `Hm. [TOOL_CALLS]get_weather[CALL_ID]abcdefghi[ARGS]{"city": "x"}[TOOL_CALLS]now[ARGS]{}`,
			answer{"Hm.", [][2]string{call("get_weather", `{"city": "x"}`), call("now", "{}")}, 2}},
		{"granite", granite, `<|tool_call|>[{"name": "now", "arguments": {}}]`, answer{"", [][2]string{call("now", "{}")}, 1}},
		{"functionary", functionary, `<function=get_weather>{"city": "x"}</function>`, answer{"", [][2]string{call("get_weather", `{"city": "x"}`)}, 1}},
		{"deepseek", deepseek, `<｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{"a":1}<｜tool▁call▁end｜>`,
			answer{"", [][2]string{call("now", "{}"), call("now", `{"a":1}`)}, 2}},
		{"generic, plain", generic, `{"name": "now", "arguments": {}}`, answer{"", [][2]string{call("now", "{}")}, 1}},
		{"generic, tagged", generic, "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>", answer{"", [][2]string{call("now", "{}")}, 1}},
		{"generic, JSON", generic, `{"a": {"name": "now"}}`, answer{Text: `{"a": {"name": "now"}}`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, pieces := range [][]string{{tc.text}, chars(tc.text)} {
				if diff := cmp.Diff(tc.want, gather(t, NewParser(tc.f, tools), pieces)); diff != "" {
					t.Errorf("%d pieces: %s", len(pieces), diff)
				}
			}
		})
	}
}

// TestToolWithoutProperties: a tool without parameters was no valid prompt for
// templates that go through their properties (Seed-OSS).
func TestToolWithoutProperties(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                         `{"type": "object", "properties": {}}`,
		" {\"type\":\"object\"}\n": `{"type":"object", "properties": {}}`,
		`{"properties":{"a":{}}}`:  `{"properties":{"a":{}}}`,
	} {
		got := string(Tool{Name: "now", Parameters: json.RawMessage(in)}.JSON())
		if want := `{"type": "function", "function": {"name": "now", "parameters": ` + want + "}}"; got != want {
			t.Errorf("%q gives %s, want %s", in, got, want)
		}
	}
}

// TestLongNameInPieces: a name that is too long was a call when it came in one
// piece.
func TestLongNameInPieces(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{maxName: 1, maxName + 1: 0} {
		for _, f := range []Form{mistralArgs, functionary, deepseek} {
			text := f.open + strings.Repeat("x", n) + f.sep + "{}" + f.end
			for _, pieces := range [][]string{{text}, chars(text)} {
				if got := gather(t, NewParser(f, tools), pieces); len(got.Calls) != want {
					t.Errorf("%s, a name of %d bytes in %d pieces: %+v", f.Name, n, len(pieces), got)
				}
			}
		}
	}
}

// TestArgumentsStream: arguments do not wait for their end.
func TestArgumentsStream(t *testing.T) {
	t.Parallel()
	p := NewParser(hermes, tools)
	p.Feed(`<tool_call>{"name": "now", "arguments": {"a": "`)
	if got := p.Feed("bc"); len(got) != 1 || got[0].Args != "bc" || got[0].Call != 0 {
		t.Errorf("%+v", got)
	}
}

// TestGrammars: they are made for every form, and refuse what a strict tool
// asks and no grammar keeps.
func TestGrammars(t *testing.T) {
	t.Parallel()
	for _, f := range []Form{hermes, llama3, mistral, mistralArgs, granite, functionary, deepseek, qwenCoder, seed, glm, apertus, generic} {
		for _, d := range []Demand{{}, {Parallel: true}, {Text: true, Parallel: true}, {Text: true, Value: `"x"`}} {
			g, err := f.Grammar(schema.NewBuilder(), tools, d)
			if err != nil || !strings.HasPrefix(g, "root ::= ") {
				t.Errorf("%s %+v: %v", f.Name, d, err)
			}
		}
	}
	hard := []Tool{{Name: "a"}, {Name: "b", Parameters: json.RawMessage(`{"type":"object","properties":{"x":{"not":{}}}}`)}}
	if _, err := hermes.Grammar(schema.NewBuilder(), hard, Demand{}); err != nil {
		t.Error(err)
	}
	hard[1].Strict = true
	var aerr *ArgumentError
	if _, err := hermes.Grammar(schema.NewBuilder(), hard, Demand{}); !asArgument(err, &aerr) || aerr.Tool != 1 || !strings.Contains(err.Error(), `"not" at /properties/x`) {
		t.Errorf("%v", err)
	}
}

func asArgument(err error, into **ArgumentError) bool {
	e, ok := err.(*ArgumentError)
	*into = e
	return ok
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"a<tool_call>{\"name\":\"now\",\"arguments\":{}}</tool_call>b", `{"name":"now","parameters":{"a":[1]}}`, "[TOOL_CALLS][{\"name\":\"now\"}]",
		"[TOOL_CALLS]now[ARGS]{}", "<function=now>{}</function>", "<tool_call>{{\"a\":}}",
		"<tool_call>\n<function=edit>\n<parameter=n>\n[1,{}]\n</parameter>\n<parameter=text>\na\"\n</parameter>\n</function>\n</tool_call>",
		"<seed:tool_call><function=edit><parameter=n>{'a': True}</parameter></function></seed:tool_call>x", "<tool_call>now</tool_call>",
		"<tool_call>edit\n<arg_key>n</arg_key>\n<arg_value>None</arg_value></tool_call>", `<|tools_prefix|>[{"now": {"a": "}"}}, {"now": {}}]<|tools_suffix|>`,
	} {
		f.Add(s, 3)
	}
	tools := append([]Tool{editTool}, tools...)
	f.Fuzz(func(t *testing.T, s string, cut int) {
		for _, form := range []Form{hermes, llama3, mistral, mistralArgs, functionary, qwenCoder, seed, glm, apertus, generic} {
			whole := gather(t, NewParser(form, tools), []string{s})
			if cut = max(cut, -cut, 1); cut < 0 {
				cut = 1
			}
			var pieces []string
			for rest := s; rest != ""; {
				n := min(cut, len(rest))
				pieces, rest = append(pieces, rest[:n]), rest[n:]
			}
			if diff := cmp.Diff(whole, gather(t, NewParser(form, tools), pieces)); diff != "" {
				t.Errorf("%s: %q in pieces of %d: %s", form.Name, s, cut, diff)
			}
			for i := 0; form.tags != nil && i < len(whole.Calls)-1; i++ { // the last one may be cut
				if args := whole.Calls[i][1]; !json.Valid([]byte(args)) {
					t.Errorf("%s: %q: arguments %q", form.Name, s, args)
				}
			}
			if whole.Ended != len(whole.Calls) {
				t.Errorf("%s: %q: %d calls, %d ended", form.Name, s, len(whole.Calls), whole.Ended)
			}
			if len(whole.Calls) == 0 && whole.Text != strings.TrimRight(s, " \t\r\n") && !strings.Contains(s, pythonTag) {
				t.Errorf("%s: text %q of %q", form.Name, whole.Text, s)
			}
		}
	})
}
