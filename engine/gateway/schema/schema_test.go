package schema

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Whether libllama takes the grammars, and whether what they admit is valid,
// is tested where libllama may be loaded: engine/stage/worker.

// TestRefused: what no grammar keeps is an error that names the keyword and
// the place, and what is wrong is told from it.
func TestRefused(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"items":`, 200) + "{}" + strings.Repeat("}", 200)
	for _, tc := range []struct {
		schema, pointer, keyword string
		unsupported              bool
	}{
		{`{"type":"object","properties":{"a":{"not":{}}}}`, "/properties/a", "not", true},
		{`{"if":{},"then":{}}`, "", "if", true},
		{`{"type":"array","items":{"uniqueItems":true}}`, "/items", "uniqueItems", true},
		{`{"type":"array","contains":{}}`, "", "contains", true},
		{`{"dependentRequired":{}}`, "", "dependentRequired", true},
		{`{"type":"string","pattern":"(?=a)"}`, "", "pattern", true},
		{`{"type":"string","pattern":"a\\bb"}`, "", "pattern", true},
		{`{"type":"string","pattern":"(a*)*"}`, "", "pattern", true},
		{`{"type":"string","pattern":"a","maxLength":3}`, "", "pattern", true},
		{`{"type":"string","format":"iri"}`, "", "format", true},
		{`{"type":"string","maxLength":5000}`, "", "maxLength", true},
		{`{"type":"string","minLength":-1}`, "", "minLength", false},
		{`{"type":"number","multipleOf":3}`, "", "multipleOf", true},
		{`{"type":"number","minimum":"1"}`, "", "minimum", false},
		{`{"type":"object","properties":{"a":{}},"minProperties":1}`, "", "minProperties", true},
		{`{"type":"object","additionalProperties":{"type":"integer"},"maxProperties":3000}`, "", "maxProperties", true},
		{`{"type":"object","patternProperties":{"a":{},"b":{}},"additionalProperties":false}`, "", "patternProperties", true},
		{`{"$ref":"other.json"}`, "", "$ref", true},
		{`{"$ref":"#/$defs/none"}`, "", "$ref", false},
		{`{"$ref":"#"}`, "", "$ref", false},
		{`{"anyOf":[{"$ref":"#"},{"type":"null"}]}`, "/anyOf/0", "$ref", false},
		{`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}},"$ref":"#/$defs/a"}`, "/$defs/b/allOf/0", "$ref", false},
		{`{"type":"thing"}`, "", "type", false},
		{`{"type":[]}`, "", "type", false},
		{`{"enum":[]}`, "", "enum", false},
		{`{"enum":["a"],"type":"integer"}`, "", "", false},
		{`{"allOf":[{"type":"string"},{"type":"integer"}]}`, "", "", false},
		{`{"type":"object","required":["a"],"additionalProperties":false}`, "", "", false},
		{`{"type":"integer","minimum":3,"maximum":2}`, "", "", false},
		{`{"type":"integer","exclusiveMinimum":3,"exclusiveMaximum":4}`, "", "", false},
		{`false`, "", "", false},
		{`[]`, "", "", false},
		{`{`, "", "", false},
		{`{} {}`, "", "", false},
		{deep, "", "", false},
	} {
		_, err := FromSchema([]byte(tc.schema))
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%.80s: %v", tc.schema, err)
			continue
		}
		if e.Pointer != tc.pointer || e.Keyword != tc.keyword || e.Unsupported != tc.unsupported {
			t.Errorf("%.80s: %+v", tc.schema, e)
		}
	}
}

// TestLimits: schemas that multiply end soon, with an error.
func TestLimits(t *testing.T) {
	t.Parallel()
	var laughs strings.Builder // each definition names the next one twice, beside other keywords
	laughs.WriteString(`{"$defs":{`)
	for i := range 50 {
		fmt.Fprintf(&laughs, `"a%d":{"type":"object","properties":{"x":{"$ref":"#/$defs/a%d","type":"object"},"y":{"$ref":"#/$defs/a%d","type":"object"}}},`, i, i+1, i+1)
	}
	laughs.WriteString(`"a50":{}},"$ref":"#/$defs/a0"}`)
	long := make([]string, 3000)
	for i := range long {
		long[i] = fmt.Sprintf(`{"type":"string","maxLength":%d}`, 100+i%1800)
	}
	for name, s := range map[string]string{
		"laughs":      laughs.String(),
		"recursion":   `{"type":"object","properties":{"a":{"$ref":"#","type":"object"}}}`,
		"repetitions": `{"type":"array","prefixItems":[` + strings.Join(long[:900], ",") + `]}`,
		"size":        `{"enum":["` + strings.Repeat("x", MaxGrammar) + `"]}`,
	} {
		start := time.Now()
		if _, err := FromSchema([]byte(s)); err == nil {
			t.Errorf("%s: no error", name)
		}
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("%s took %s", name, d)
		}
	}
}

// TestStable: the same schema gives the same grammar, whose rules are all
// there.
func TestStable(t *testing.T) {
	t.Parallel()
	const s = `{"type":"object","properties":{"a":{"enum":[1,2]},"b":{"anyOf":[{"type":"string"},{"type":"null"}]}},"required":["b"],"additionalProperties":true}`
	one, err := FromSchema([]byte(s))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if two, _ := FromSchema([]byte(s)); two != one {
			t.Fatalf("%s\nand\n%s", one, two)
		}
	}
	if !strings.Contains(AnyObject(), "root ::= r") {
		t.Error(AnyObject())
	}
}

func FuzzSchema(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"type":["string","null"],"pattern":"^[a-f]{2,3}|\\d$"}},"required":["a"]}`,
		`{"type":"number","minimum":-1.25,"exclusiveMaximum":1e3}`, `{"allOf":[{"minimum":3},{"maximum":30}],"type":"integer"}`,
		`{"type":"array","prefixItems":[{}],"items":{"const":{"a":[null]}},"minItems":2}`, `{"oneOf":[{"$ref":"#"},true]}`,
		`{"type":"object","properties":{"ab":{},"a":{}},"additionalProperties":{"type":"string","format":"date"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		g, err := FromSchema(raw)
		if err != nil {
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is no *Error", err)
			}
			return
		}
		if len(g) > MaxGrammar {
			t.Fatalf("%d bytes", len(g))
		}
		// Every rule that is named has a body.
		defined := map[string]bool{}
		for _, line := range strings.Split(g, "\n") {
			name, body, ok := strings.Cut(line, " ::= ")
			if ok && body != "" {
				defined[name] = true
			}
		}
		for name := range defined {
			if name != "root" && !strings.HasPrefix(name, "r") {
				t.Errorf("rule %q", name)
			}
		}
		if !defined["root"] {
			t.Errorf("no root in %s", g)
		}
	})
}
