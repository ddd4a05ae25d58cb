package chattmpl

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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

// TestVectors runs the cases of @huggingface/jinja. That library prints
// booleans, nulls and lists as JavaScript does; Python's Jinja, for which
// models' templates are written, prints True, None and 'text'. Both counts are
// floors: a newer language version may only raise them.
func TestVectors(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shared(t), "testdata", "templates", "vectors")
	for _, set := range []struct {
		file           string
		strict, python int
	}{{"hf-jinja-e2e.json", 26, 26}, {"hf-jinja-language.json", 84, 126}} {
		raw, err := os.ReadFile(filepath.Join(dir, set.file))
		if err != nil {
			t.Fatal(err)
		}
		var vs []vector
		if err := json.Unmarshal(raw, &vs); err != nil {
			t.Fatal(err)
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
			switch {
			case err == nil && got == want:
				strict++
				python++
			case err == nil && spelling.Replace(got) == spelling.Replace(want):
				python++
			default:
				t.Logf("%s: error %v\n got %.120q\nwant %.120q", v.Name, err, got, want)
			}
		}
		t.Logf("%s: %d of %d, %d with Python's spelling", set.file, strict, len(vs), python)
		if strict < set.strict || python < set.python {
			t.Errorf("%s: %d and %d cases pass, expected at least %d and %d", set.file, strict, python, set.strict, set.python)
		}
	}
}

var replaced = regexp.MustCompile(`\|\s*(sort|dictsort|tojson)`)

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
