package chattmpl

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ardanlabs/jinja"
)

// shared finds the folder of test inputs that are not part of this repository.
func shared(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("NEURON_SHARED")
	if dir == "" {
		at, err := os.Getwd()
		if err != nil {
			t.Fatal(err)
		}
		for !exists(filepath.Join(at, "go.mod")) && at != filepath.Dir(at) {
			at = filepath.Dir(at)
		}
		dir = filepath.Join(at, "..", "shared")
	}
	if !exists(filepath.Join(dir, "testdata", "templates")) {
		t.Skipf("SKIPPED: no chat template vectors under %s (set NEURON_SHARED)", dir)
	}
	return dir
}

func exists(p string) bool { _, err := os.Stat(p); return err == nil }

type vector struct {
	Name, Template, Expected, Target string
	ChatTemplate                     string `json:"chat_template"`
	Context, Data                    json.RawMessage
}

// gaps are the cases whose text differs, and why. A case that is not named here
// has to pass, and one that is has to fail: docs/decisions/0005 has the list.
var gaps = map[string][]string{
	"the condition of a loop over pairs (for k, v in x if c)":          {"mistralai/Mistral-7B-Instruct-v0.3 (JSON Schema)"},
	"several names in one set, and lists as arguments (*list)":         {"VARIABLES_UNPACKING", "UNPACKING"},
	"two texts in a row are not joined":                                {"STRINGS_4"},
	"numbers behind a point (a.0.b)":                                   {"zai-org/GLM-5.1", "PROPERTIES_1"},
	"split and replace with a limit":                                   {"SPLIT_3", "SPLIT_4", "SPLIT_5", "REPLACE"},
	"a sign binds weaker than a filter, // rounds towards zero, -0.0":  {"BINOP_EXPR_2", "UNARY_SIGN_EXPRESSIONS", "FILTER_OPERATOR_3"},
	"a float without a fraction prints as a whole number":              {"FILTER_OPERATOR_14"},
	"indent(blank=True)":                                               {"FILTER_OPERATOR_10"},
	"map(attribute=...) does not follow points":                        {"SORT_ATTRIBUTE_DOT_NOTATION"},
	"white space at the beginning of what a macro or its caller gives": {"MACROS_3", "MACROS_4"},
}

// TestVectors runs the cases of @huggingface/jinja. That library prints
// booleans, nulls and lists as JavaScript does; Python's Jinja, for which
// models' templates are written, prints True, None and 'text', which counts as
// equal.
func TestVectors(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shared(t), "testdata", "templates", "vectors")
	var listed []string
	for _, names := range gaps {
		listed = append(listed, names...)
	}
	for _, set := range []struct {
		file  string
		cases int
	}{{"hf-jinja-e2e.json", 28}, {"hf-jinja-language.json", 157}} {
		raw, err := os.ReadFile(filepath.Join(dir, set.file))
		if err != nil {
			t.Fatal(err)
		}
		var vs []vector
		if err := json.Unmarshal(raw, &vs); err != nil {
			t.Fatal(err)
		}
		if len(vs) != set.cases {
			t.Errorf("%s: %d cases, expected %d", set.file, len(vs), set.cases)
		}
		strict, python := 0, 0
		for _, v := range vs {
			src, want, data := v.Template, v.Expected, v.Context
			if v.ChatTemplate != "" {
				src, want, data = v.ChatTemplate, v.Target, v.Data
			}
			got, err := renderVector(t, src, data)
			// Where our own filters stand in for the language's, texts may differ.
			if plain, perr := renderPlain(src, data); perr == nil && err == nil && plain != got && !replaced.MatchString(src) {
				t.Errorf("%s: the guards change the text from %q to %q", v.Name, plain, got)
			}
			passes := err == nil && spelling.Replace(got) == spelling.Replace(want)
			if passes {
				python++
			}
			if err == nil && got == want {
				strict++
			}
			if known := slices.Contains(listed, v.Name); passes == known {
				t.Errorf("%s: passes %v, listed as a gap %v, error %v\n got %q\nwant %q", v.Name, passes, known, err, got, want)
			}
		}
		t.Logf("%s: %d of %d, %d with Python's spelling", set.file, strict, len(vs), python)
	}
}

var replaced = regexp.MustCompile(`\|\s*(sort|dictsort|tojson|int|float|selectattr|rejectattr)\b`)

var spelling = strings.NewReplacer("True", "true", "False", "false", "None", "null", "Undefined", "undefined", "\"", "'")

func vectorVars(data json.RawMessage) map[string]jinja.Value {
	all, err := jsonValue(data)
	if err != nil {
		panic(err) // a file of ours
	}
	vars := map[string]jinja.Value{"strftime_now": jinja.NewCallable("strftime_now", func(a []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return jinja.NewString(strftime(time.Date(2025, 7, 10, 12, 0, 0, 0, time.UTC), a[0].AsString())), nil
	})}
	for k, v := range all.AsDict().Data {
		vars[k] = v
	}
	return vars
}

func renderVector(t *testing.T, src string, data json.RawMessage) (string, error) {
	tm, err := Compile(src)
	if err != nil {
		return "", err
	}
	return tm.render(t.Context(), vectorVars(data))
}

// renderPlain renders without the guards.
func renderPlain(src string, data json.RawMessage) (out string, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	jt, err := jinja.Compile(trimLast(src))
	if err != nil {
		return "", err
	}
	return jt.RenderValues(vectorVars(data))
}

// TestRealTemplates renders a plain conversation through each real template
// and finds the contents in it.
func TestRealTemplates(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(shared(t), "testdata", "templates", "jinja", "*.jinja"))
	if err != nil || len(files) != 19 {
		t.Fatalf("%d templates, %v", len(files), err)
	}
	exact := 0
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		tm, err := Compile(string(src))
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(f), err)
			continue
		}
		in := Input{BOS: "<s>", EOS: "</s>", Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Messages: []Message{
			{Role: "user", Content: "  ping zero "}, {Role: "assistant", Content: "pong one"}, {Role: "user", Content: "what <|im_end|> now?"},
		}}
		text, spans, err := tm.RenderSpans(t.Context(), in)
		switch {
		case err == ErrNoSpans:
			t.Logf("%s: no spans", filepath.Base(f))
		case err != nil:
			t.Errorf("%s: %v", filepath.Base(f), err)
			continue
		default:
			exact++
			for _, s := range spans {
				if got, want := text[s.Start:s.End], strings.TrimSpace(in.Messages[s.Message].Content); got != want {
					t.Errorf("%s: span of message %d is %q", filepath.Base(f), s.Message, got)
				}
			}
		}
		if !strings.Contains(text, "ping zero") || !strings.Contains(text, "what <|im_end|> now?") {
			t.Errorf("%s: contents are missing in %.200q", filepath.Base(f), text)
		}
	}
	t.Logf("contents found exactly in %d of %d", exact, len(files))
	if exact < 15 {
		t.Errorf("contents found in %d templates only", exact)
	}
}

// withoutTools are real templates that show no tools at all; toolcall teaches
// those models in the system message instead.
var withoutTools = []string{
	"HuggingFaceTB-SmolLM3-3B.jinja", "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja", "deepseek-ai-DeepSeek-V3.1.jinja", "llama-cpp-rwkv-world.jinja", "microsoft-Phi-3.5-mini-instruct.jinja",
}

// TestRealTemplatesWithTools renders tools, a call and its answer through each
// real template: name, arguments and answer have to be in the prompt.
func TestRealTemplatesWithTools(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join(shared(t), "testdata", "templates", "jinja", "*.jinja"))
	if err != nil || len(files) != 19 {
		t.Fatalf("%d templates, %v", len(files), err)
	}
	in := Input{BOS: "<s>", EOS: "</s>", Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Tools: []json.RawMessage{json.RawMessage(`{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Where to look"}}, "required": ["city"]}}}`)},
		Messages: []Message{
			{Role: "user", Content: "Rain in Oslo?"},
			{Role: "assistant", NoContent: true, ToolCalls: []ToolCall{{ID: "abcdefghi", Name: "get_weather", Arguments: `{"city": "Oslo \"X\""}`}}},
			{Role: "tool", ToolCallID: "abcdefghi", Name: "get_weather", Content: "drizzle"},
			{Role: "assistant", Content: "A little."},
			{Role: "user", Content: "Thanks"},
		}}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f)
		if slices.Contains(withoutTools, name) {
			continue
		}
		tm, err := Compile(string(src))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, err := tm.Render(t.Context(), in)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, want := range []string{"get_weather", "Where to look", "drizzle", "A little.", "Thanks"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in\n%s", name, want, text)
			}
		}
		// Granite's shows no earlier calls; the gateway writes them into the content.
		if strings.Contains(string(src), "tool_calls") && !strings.Contains(text, `Oslo \"X\"`) && !strings.Contains(text, `Oslo "X"`) {
			t.Errorf("%s: the call's arguments are missing in\n%s", name, text)
		}
	}
}
