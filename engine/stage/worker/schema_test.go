package worker

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"neuron/engine/gateway/schema"
	"neuron/engine/gateway/toolcall"
	"neuron/llama"
)

// guideVocab loads the tokenizer of the bundled model.
func guideVocab(t testing.TB) llama.Vocab {
	t.Helper()
	dir, err := llama.NativeDir()
	if err != nil {
		t.Skipf("SKIPPED: no native libraries (make native): %v", err)
	}
	if err := llama.Load(dir); err != nil {
		t.Fatal(err)
	}
	m, err := llama.LoadModel([]string{filepath.Join("..", "..", "..", "assets", "model", "guide-q8_0.gguf")}, llama.ModelParams{VocabOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Free)
	return m.Vocab()
}

// admits reports whether libllama's grammar sampler lets a text pass, whole.
func admits(t testing.TB, v llama.Vocab, gbnf, text string) bool {
	t.Helper()
	g, err := llama.Grammar(v, gbnf, "root")
	if err != nil {
		t.Fatalf("%v\n%s", err, gbnf)
	}
	defer g.Free()
	ids, err := v.Tokenize(text, false, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if g.Accept(id) != nil {
			return false
		}
	}
	end := llama.Candidates{Data: []llama.TokenData{{ID: v.EOS()}}}
	if err := g.Apply(&end); err != nil {
		t.Fatal(err)
	}
	return !math.IsInf(float64(end.Data[0].Logit), -1)
}

// babble writes a random text that the grammar admits; "" when it did not end
// within n tokens.
func babble(t *testing.T, v llama.Vocab, pieces []string, gbnf string, r *rand.Rand, n int) string {
	t.Helper()
	g, err := llama.Grammar(v, gbnf, "root")
	if err != nil {
		t.Fatalf("%v\n%s", err, gbnf)
	}
	defer g.Free()
	var out strings.Builder
	eos := v.EOS()
	cands := llama.Candidates{Data: make([]llama.TokenData, v.N())}
	for range n {
		cands.Data = cands.Data[:v.N()]
		for id := range cands.Data {
			l := r.Float32()
			// Ends are likelier, so that texts come to one.
			if int32(id) == eos {
				l += 0.5
			}
			if strings.ContainsAny(pieces[id], `"}]`) {
				l += 0.3
			}
			cands.Data[id] = llama.TokenData{ID: int32(id), Logit: l}
		}
		cands.Selected, cands.Sorted = -1, false
		if err := g.Apply(&cands); err != nil {
			t.Fatal(err)
		}
		best := cands.Data[0]
		for _, c := range cands.Data {
			if c.Logit > best.Logit {
				best = c
			}
		}
		if math.IsInf(float64(best.Logit), -1) {
			t.Fatalf("the grammar comes to a dead end behind %q\n%s", out.String(), gbnf)
		}
		if v.IsEOG(best.ID) {
			return out.String()
		}
		out.WriteString(pieces[best.ID])
		if err := g.Accept(best.ID); err != nil {
			t.Fatal(err)
		}
	}
	return ""
}

// schemaCase is a schema with texts that its grammar admits and texts that it
// does not.
type schemaCase struct {
	name, schema string
	yes, no      []string
}

var schemaCases = []schemaCase{
	{"any", `{}`, []string{`{"a": [1, -2.5e3, true, null, "x\n\u00e9\ud83d\ude00"]}`, `"é"`, "[]", "{\n  \"a\": 1\n}"}, []string{`{`, `tru`, `01`, `"\x"`, `"\ud83d"`}},
	{"object", `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},"required":["name"],"additionalProperties":false}`,
		[]string{`{"name": "x", "age": 3}`, `{"name":"x"}`}, []string{`{}`, `{"age": 3}`, `{"name": "x", "age": 3.5}`, `{"name": "x", "b": 1}`, `{"name": 1}`}},
	{"optional", `{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"boolean"},"c":{"const":1}}}`,
		[]string{`{}`, `{"a":null}`, `{"b":true}`, `{"c":1}`, `{"a":null,"c":1}`, `{"b":false,"c":1}`}, []string{`{,}`, `{"a":null,}`, `{"a":true}`, `{"c":2}`}},
	{"open", `{"type":"object","properties":{"ab":{"type":"integer"},"ac":{"type":"integer"}},"required":["ab"],"additionalProperties":{"type":"string"}}`,
		[]string{`{"ab":1,"a":"x"}`, `{"ab":1,"abc":"x","":"y","z":"q"}`, `{"ab":1,"ac":2,"ad":"x"}`}, []string{`{"ab":1,"ac":"x"}`, `{"ab":1,"ab":"x"}`, `{"ab":1,"zz":2}`, `{"ab":1,"a\u0062":"x"}`}},
	{"map", `{"type":"object","additionalProperties":{"type":"array","items":{"type":"integer","minimum":0}}}`,
		[]string{`{}`, `{"x":[],"y":[1,2]}`}, []string{`{"x":1}`, `{"x":[-1]}`}},
	{"pattern keys", `{"type":"object","patternProperties":{"^x-[a-z]+$":{"type":"boolean"}},"additionalProperties":false}`,
		[]string{`{"x-a":true}`}, []string{`{"y":true}`, `{"x-":true}`}},
	{"property names", `{"type":"object","propertyNames":{"enum":["a","b"]},"additionalProperties":{"type":"integer"},"minProperties":1}`,
		[]string{`{"a":1}`}, []string{`{}`, `{"c":1}`}},
	{"array", `{"type":"array","items":{"type":"boolean"},"minItems":2,"maxItems":3}`,
		[]string{`[true,false]`, `[true, false, true]`}, []string{`[]`, `[true]`, `[true,true,true,true]`}},
	{"array of none", `{"type":"array","maxItems":0}`, []string{`[]`}, []string{`[1]`}},
	{"tuple", `{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":{"type":"null"},"minItems":1}`,
		[]string{`["a"]`, `["a",1]`, `["a",1,null,null]`}, []string{`[]`, `["a",null]`, `[1]`}},
	{"closed tuple", `{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false,"minItems":2}`, []string{`["a",1]`}, []string{`["a"]`, `["a",1,2]`}},
	{"enum", `{"enum":["red","g\"n",3,null,{"a":[1]}]}`, []string{`"red"`, `"g\"n"`, `3`, `null`, `{"a":[1]}`}, []string{`"blue"`, `4`}},
	{"enum of a type", `{"type":"string","enum":["a",1,"bb"],"maxLength":1}`, []string{`"a"`}, []string{`1`, `"bb"`}},
	{"anyOf", `{"anyOf":[{"type":"integer"},{"type":"object","properties":{"k":{"const":"v"}},"required":["k"]}]}`, []string{`12`, `{"k": "v"}`}, []string{`"a"`, `{}`}},
	{"anyOf beside", `{"type":"object","properties":{"t":{"type":"string"}},"required":["t"],"oneOf":[{"properties":{"a":{"type":"integer"}},"required":["a"]},{"properties":{"b":{"type":"integer"}},"required":["b"]}]}`,
		[]string{`{"t":"x","a":1}`, `{"t":"x","b":1}`}, []string{`{"t":"x"}`, `{"a":1}`}},
	{"allOf", `{"allOf":[{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]},{"properties":{"a":{"type":"integer","minimum":5},"b":{"type":"null"}}}],"required":["b"]}`,
		[]string{`{"a":5,"b":null}`}, []string{`{"a":4,"b":null}`, `{"a":5}`, `{"a":5.5,"b":null}`}},
	{"reference", `{"$defs":{"p":{"type":"object","properties":{"x":{"$ref":"#/$defs/n"}},"required":["x"],"additionalProperties":false},"n":{"type":"integer"}},"type":"array","items":{"$ref":"#/$defs/p","description":"d"}}`,
		[]string{`[{"x":1},{"x":2}]`}, []string{`[{"x":"a"}]`, `[{}]`}},
	{"recursion", `{"type":"object","properties":{"v":{"type":"integer"},"next":{"anyOf":[{"$ref":"#"},{"type":"null"}]}},"required":["v","next"],"additionalProperties":false}`,
		[]string{`{"v":1,"next":null}`, `{"v":1,"next":{"v":2,"next":{"v":3,"next":null}}}`}, []string{`{"v":1}`, `{"v":1,"next":1}`}},
	{"tree", `{"$ref":"#/definitions/tree","definitions":{"tree":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/definitions/tree"}}},"required":["kids"],"additionalProperties":false}}}`,
		[]string{`{"kids":[]}`, `{"kids":[{"kids":[]},{"kids":[{"kids":[]}]}]}`}, []string{`{}`, `{"kids":[1]}`}},
	{"length", `{"type":"string","minLength":2,"maxLength":4}`, []string{`"ab"`, `"é\n\ud83d\ude00"`, `"abcd"`}, []string{`"a"`, `"abcde"`}},
	{"pattern", `{"type":"string","pattern":"^(\\+?\\d{1,3}[- ])?[A-Fa-f_]{2,}\\\\$"}`, []string{`"+12 ab\\"`, `"Af_\\"`}, []string{`"Af_"`, `"1234 ab\\"`}},
	{"pattern inside", `{"type":"string","pattern":"b+|^q"}`, []string{`"abc"`, `"b"`, `"qx"`}, []string{`"acd"`, `"xq"`}},
	{"pattern with a dot", `{"type":"string","pattern":"^a.[^\"x]$"}`, []string{`"abc"`, `"a\"é"`}, []string{`"ab\""`, `"abx"`, `"a\nb"`}},
	{"integers", `{"type":"integer","minimum":-15,"maximum":1203}`, []string{"-15", "-9", "0", "7", "99", "1000", "1203"}, []string{"-16", "1204", "-0.5", "01", "9999"}},
	{"above", `{"type":"integer","exclusiveMinimum":99}`, []string{"100", "123456"}, []string{"99", "0", "-100"}},
	{"below", `{"type":"integer","maximum":-3}`, []string{"-3", "-10", "-99999"}, []string{"-2", "0", "3"}},
	{"decimals", `{"type":"number","minimum":0.25,"exclusiveMaximum":3}`, []string{"0.25", "0.3", "1", "2.999", "0.250"}, []string{"0", "0.2", "3", "3.0", "-1", "1e0", "0.24"}},
	{"unit", `{"type":"number","minimum":0,"maximum":1}`, []string{"0", "0.5", "1", "1.0"}, []string{"1.01", "2", "-0.1"}},
	{"around zero", `{"type":"number","minimum":-1.5,"maximum":2.05}`, []string{"-1.5", "-1.49", "-0.1", "0", "1.9", "2.05", "2.0", "2.049"}, []string{"-1.51", "2.06", "2.1", "-2"}},
	{"narrow", `{"type":"number","exclusiveMinimum":1.204,"maximum":1.25}`, []string{"1.205", "1.2041", "1.25", "1.249"}, []string{"1.204", "1.26", "1.2", "1"}},
	{"cents", `{"type":"number","multipleOf":0.01}`, []string{"1.25", "-3", "0.5"}, []string{"1.255"}},
	{"types", `{"type":["string","null"],"minLength":1}`, []string{`null`, `"a"`}, []string{`""`, `1`}},
	{"nullable", `{"type":"integer","nullable":true}`, []string{`null`, `1`}, []string{`"a"`}},
	{"dates", `{"type":"string","format":"date"}`, []string{`"2024-02-29"`, `"2000-02-29"`, `"2025-12-31"`}, []string{`"2023-02-29"`, `"1900-02-29"`, `"2025-04-31"`, `"2025-13-01"`}},
	{"moments", `{"type":"string","format":"date-time"}`, []string{`"2025-07-10T12:00:00Z"`, `"2025-07-10T12:00:00.5+02:00"`}, []string{`"2025-07-10 12:00:00Z"`, `"2025-07-10T24:00:00Z"`}},
	{"uuid", `{"type":"string","format":"uuid"}`, []string{`"123e4567-e89b-12d3-a456-426614174000"`}, []string{`"123e4567"`}},
	{"ipv4", `{"type":"string","format":"ipv4"}`, []string{`"127.0.0.1"`, `"255.249.99.0"`}, []string{`"256.0.0.1"`, `"1.2.3"`}},
	{"ipv6", `{"type":"string","format":"ipv6"}`, []string{`"::1"`, `"2001:db8::8a2e:370:7334"`, `"1:2:3:4:5:6:7:8"`, `"::"`}, []string{`"1:2:3:4:5:6:7:8:9"`, `"1::2::3"`, `"1:2"`}},
	{"email", `{"type":"string","format":"email"}`, []string{`"a.b+c@example.org"`}, []string{`"a@"`, `"@b"`, `"a..b@c"`}},
	{"hostname", `{"type":"string","format":"hostname"}`, []string{`"a-b.example"`}, []string{`"-a"`, `"a..b"`}},
	{"uri", `{"type":"string","format":"uri"}`, []string{`"https://example.org:80/a/b?c=d#e"`, `"mailto:x@y"`}, []string{`"example"`, `"://x"`}},
	{"time", `{"type":"string","format":"time"}`, []string{`"12:30:00Z"`}, []string{`"12:30"`}},
	{"duration", `{"type":"string","format":"duration"}`, []string{`"P3Y6M4DT12H30M5S"`, `"PT5M"`, `"P2W"`}, []string{`"P"`, `"PT"`}},
}

// TestSchemas: libllama takes every grammar, admits and refuses what the
// schema does, and whatever it admits at random is valid.
func TestSchemas(t *testing.T) {
	v := guideVocab(t)
	pieces := make([]string, v.N())
	for id := range pieces {
		p, err := v.Piece(int32(id), true)
		if err != nil {
			t.Fatal(err)
		}
		pieces[id] = string(p)
	}
	for _, tc := range schemaCases {
		t.Run(tc.name, func(t *testing.T) {
			gbnf, err := schema.FromSchema([]byte(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range tc.yes {
				if !admits(t, v, gbnf, text) {
					t.Errorf("refuses %s\n%s", text, gbnf)
				}
			}
			for _, text := range tc.no {
				if admits(t, v, gbnf, text) {
					t.Errorf("admits %s\n%s", text, gbnf)
				}
			}
			doc, err := jsonschema.UnmarshalJSON(strings.NewReader(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			c := jsonschema.NewCompiler()
			c.AssertFormat()
			if err := c.AddResource("schema.json", doc); err != nil {
				t.Fatal(err)
			}
			valid, err := c.Compile("schema.json")
			if err != nil {
				t.Fatal(err)
			}
			r := rand.New(rand.NewPCG(1, 2))
			done := 0
			for range 16 {
				text := babble(t, v, pieces, gbnf, r, 80)
				// A token may be a part of a character; bytes that make none are
				// no matter of a grammar over characters.
				if text == "" || !utf8.ValidString(text) {
					continue
				}
				done++
				var got any
				d := json.NewDecoder(strings.NewReader(text))
				d.UseNumber()
				if err := d.Decode(&got); err != nil {
					t.Fatalf("%q is not JSON: %v", text, err)
				}
				if tc.name == "nullable" && got == nil { // OpenAPI's word, unknown to the validator
					continue
				}
				if err := valid.Validate(got); err != nil {
					t.Errorf("%q: %v", text, err)
				}
			}
			if done == 0 {
				t.Error("no text came to an end")
			}
		})
	}
}

// TestToolGrammars: forced calls, and free text in which each opening mark has
// to be followed by a call.
func TestToolGrammars(t *testing.T) {
	v := guideVocab(t)
	tools := []toolcall.Tool{{Name: "one", Strict: true, Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`)}, {Name: "two"}}
	for _, tc := range []struct {
		template, one, two, bad string
		inText                  bool // calls may stand in text
	}{
		{"tools <tool_call>", "<tool_call>\n{\"name\": \"one\", \"arguments\": {\"a\": 1}}\n</tool_call>", "<tool_call>\n{\"name\": \"two\", \"arguments\": {}}\n</tool_call>", "<tool_call>\n{\"name\": \"one\", \"arguments\": {}}\n</tool_call>", true},
		{"tools ipython", `{"name": "one", "parameters": {"a": 1}}`, `{"name": "two", "parameters": {"x": []}}`, `{"name": "three", "parameters": {}}`, false},
		{"tools [TOOL_CALLS]", `[TOOL_CALLS][{"name": "one", "arguments": {"a": 1}}]`, `[TOOL_CALLS][{"name": "two", "arguments": {}},{"name": "one", "arguments": {"a": 2}}]`, `[TOOL_CALLS][{"name": "one"}]`, true},
		{"tools [TOOL_CALLS] [ARGS]", `[TOOL_CALLS]one[ARGS]{"a": 1}`, `[TOOL_CALLS]two[ARGS]{}`, `[TOOL_CALLS]one[ARGS]{"b": 1}`, true},
		{"tools <|tool_call|>", `<|tool_call|>[{"name": "one", "arguments": {"a": 1}}]`, `<|tool_call|>[{"name": "two", "arguments": {}}]`, `<|tool_call|>{`, true},
		{"tools <function=", `<function=one>{"a": 1}</function>`, `<function=two>{}</function>`, `<function=one>{"a": "x"}</function>`, true},
		{"tools <｜tool▁sep｜>", `<｜tool▁call▁begin｜>one<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>`, `<｜tool▁call▁begin｜>two<｜tool▁sep｜>{}<｜tool▁call▁end｜>`, `<｜tool▁call▁begin｜>three<｜tool▁sep｜>{}<｜tool▁call▁end｜>`, true},
		{"tools <tool_call> <parameter=", "<tool_call>\n<function=one>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", "<tool_call>\n<function=two>\n<parameter=x>\na\n</param\n</parameter>\n</function>\n</tool_call>", "<tool_call>\n<function=one>\n</function>\n</tool_call>", true},
		{"tools <seed:tool_call> <parameter=", "<seed:tool_call>\n<function=one>\n<parameter=a>1</parameter>\n</function>\n</seed:tool_call>", "<seed:tool_call>\n<function=two>\n</function>\n</seed:tool_call>", "<seed:tool_call>\n<function=one>\n<parameter=a>x</parameter>\n</function>\n</seed:tool_call>", true},
		{"tools <tool_call> <arg_key>", "<tool_call>one\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", "<tool_call>two\n<arg_key>x</arg_key>\n<arg_value>a<</arg_value>\n</tool_call>", "<tool_call>one\n</tool_call>", true},
		{"tools <|tools_prefix|>", `<|tools_prefix|>[{"one": {"a": 1}}]<|tools_suffix|>`, `<|tools_prefix|>[{"two": {}},{"one": {"a": 2}}]<|tools_suffix|>`, `<|tools_prefix|>[{"one": {}}]<|tools_suffix|>`, true},
	} {
		form, why, ok := toolcall.Detect(tc.template)
		if !ok {
			t.Errorf("%s: %s", tc.template, why)
			continue
		}
		grammar := func(d toolcall.Demand) string {
			g, err := form.Grammar(schema.NewBuilder(), tools, d)
			if err != nil {
				t.Fatal(err)
			}
			return g
		}
		check := func(what, g, text string, want bool) {
			t.Helper()
			if got := admits(t, v, g, text); got != want {
				t.Errorf("%s, %s: %q passes %v\n%s", form.Name, what, text, got, g)
			}
		}
		forced := grammar(toolcall.Demand{Parallel: true})
		check("forced", forced, tc.one, true)
		check("forced", forced, tc.two, true)
		check("forced", forced, tc.bad, false)
		check("forced", forced, "Hello", false)
		check("forced", forced, "", false)
		free := grammar(toolcall.Demand{Text: true, Parallel: true})
		check("free", free, "Hello <there>, [x] <tool, [TOOL_ and <｜tool and <|tool_cal.", true)
		check("free", free, "", true)
		check("free", free, tc.one, true)
		check("free", free, tc.bad, false)
		if tc.inText {
			check("free", free, "Look: <<"+tc.one+" and [["+tc.two+" done", true)
			check("free", free, "Look: <<"+tc.bad, false)
		}
		value := grammar(toolcall.Demand{Text: true, Value: `"yes"`})
		check("value", value, "yes", true)
		check("value", value, tc.one, true)
		check("value", value, "no", false)
	}
}

// TestLargeSchemas: what a schema may be at its largest, libllama takes, and a
// token does not take long.
func TestLargeSchemas(t *testing.T) {
	v := guideVocab(t)
	var enum, optional, anyOf []string
	for i := range schema.MaxValues {
		enum = append(enum, fmt.Sprintf(`"value %d of many"`, i))
	}
	for i := range schema.MaxChoices {
		optional = append(optional, fmt.Sprintf(`"name%d":{"type":"integer"}`, i))
		anyOf = append(anyOf, fmt.Sprintf(`{"const":"value %d"}`, i))
	}
	for name, tc := range map[string]struct{ schema, yes, no string }{
		"enum":     {`{"enum":[` + strings.Join(enum, ",") + `]}`, `"value 999 of many"`, `"value 1000 of many"`},
		"optional": {`{"type":"object","properties":{` + strings.Join(optional, ",") + `}}`, `{"name3":1,"name99":2}`, `{"name99":1,"name3":2}`},
		"anyOf":    {`{"anyOf":[` + strings.Join(anyOf, ",") + `]}`, `"value 99"`, `"value 100"`},
		"length":   {fmt.Sprintf(`{"type":"string","minLength":%d,"maxLength":%d}`, schema.MaxCount, schema.MaxCount), `"` + strings.Repeat("x", schema.MaxCount) + `"`, `"x"`},
	} {
		gbnf, err := schema.FromSchema([]byte(tc.schema))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		start := time.Now()
		if !admits(t, v, gbnf, tc.yes) || admits(t, v, gbnf, tc.no) {
			t.Errorf("%s: the wrong texts pass", name)
		}
		g, err := llama.Grammar(v, gbnf, "root")
		if err != nil {
			t.Fatal(err)
		}
		all := llama.Candidates{Data: make([]llama.TokenData, v.N())}
		ids, err := v.Tokenize(tc.yes, false, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids[:min(8, len(ids))] {
			all.Data = all.Data[:v.N()]
			for i := range all.Data {
				all.Data[i] = llama.TokenData{ID: int32(i)}
			}
			if err := g.Apply(&all); err != nil {
				t.Fatal(err)
			}
			if err := g.Accept(id); err != nil {
				t.Fatal(err)
			}
		}
		g.Free()
		if d := time.Since(start); d > 10*time.Second {
			t.Errorf("%s took %s", name, d)
		}
		t.Logf("%s: %s", name, time.Since(start))
	}
}

func TestProbeTags(t *testing.T) {
	v := guideVocab(t)
	tools := []toolcall.Tool{{Name: "edit", Parameters: json.RawMessage(`{"type":"object","$defs":{"N":{"type":"integer"}},"properties":{"text":{"type":"string"},"n":{"$ref":"#/$defs/N"},"list":{"type":"array","items":{"type":"string"}},"mode":{"enum":["a","b"]}},"required":["text"]}`)}}
	form, _, _ := toolcall.Detect("tools <tool_call> <parameter=")
	g, err := form.Grammar(schema.NewBuilder(), tools, toolcall.Demand{})
	if err != nil {
		t.Fatal(err)
	}
	pre, post := "<tool_call>\n<function=edit>\n", "</function>\n</tool_call>"
	p := func(k, v string) string { return "<parameter=" + k + ">\n" + v + "\n</parameter>\n" }
	for s, want := range map[string]bool{
		pre + p("text", "a </para\n <b> é") + post:                                     true,
		pre + p("text", "") + p("n", "5") + p("list", `["x"]`) + p("mode", "b") + post: true,
		pre + p("text", "x") + p("mode", "a") + post:                                   true,
		pre + p("mode", "a") + post:                                                    false,
		pre + p("text", "x") + p("mode", "c") + post:                                   false,
		pre + p("text", "x") + p("n", "c") + post:                                      false,
	} {
		if got := admits(t, v, g, s); got != want {
			t.Errorf("%q %v\n%s", s, got, g)
		}
	}
}
