package stage_test

import (
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/internal/leaktest"
	"neuron/llama/gguf"
)

// withTemplate is the guide model's vocabulary with another chat template.
func withTemplate(t *testing.T, template string) *stage.Text {
	t.Helper()
	f, err := gguf.Open(guidePath())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var kvs []gguf.KV
	for _, kv := range f.Header().KVs {
		if kv.Key == "tokenizer.chat_template" {
			kv.Value = gguf.String(template)
		}
		kvs = append(kvs, kv)
	}
	path := filepath.Join(t.TempDir(), "template.gguf")
	if err := gguf.WriteFile(path, kvs, nil, func(int, io.Writer) error { return nil }, gguf.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	text := stage.NewText(spawn(), nativeDir(t), path)
	t.Cleanup(text.Close)
	return text
}

// TestHostileTemplates: a template that takes all memory, or never ends inside
// one expression, costs its process and a coded error; the next request finds
// a new process.
func TestHostileTemplates(t *testing.T) {
	in := chattmpl.Input{Messages: []chattmpl.Message{{Role: "user", Content: "Hi"}}, Now: time.Unix(1700000000, 0)}
	const spare = "{% if messages[0].content == 'spare' %}fine{% else %}"
	for name, src := range map[string]string{
		"doubling":   "{% set ns = namespace(x='" + strings.Repeat("x", 1000) + "') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x | length }}",
		"expression": "{{ " + strings.Repeat("('x' * 20000) | replace('x', ", 3) + "'y'" + strings.Repeat(")", 3) + " | length }}",
		"repeat":     "{{ ('x' * 100000000000) | length }}",
		"loops":      "{% set r = range(60000) %}{% for a in r %}{% for b in r %}{% for c in r %}x{% endfor %}{% endfor %}{% endfor %}",
		"broken":     "{% for x in y",
		"raises":     "{{ raise_exception('no') }}",
	} {
		t.Run(name, func(t *testing.T) {
			leaktest.Check(t)
			text := withTemplate(t, spare+src+"{% endif %}")
			start := time.Now()
			_, err := text.Render(within(t), in, false)
			if code(err) != protocol.CodeTemplateInvalid {
				t.Errorf("%v", err)
			}
			if d := time.Since(start); d > 20*time.Second {
				t.Errorf("took %s", d)
			}
			again := in
			again.Messages = []chattmpl.Message{{Role: "user", Content: "spare"}}
			out, err := text.Render(within(t), again, false)
			if name == "broken" {
				if code(err) != protocol.CodeTemplateInvalid {
					t.Errorf("%v", err)
				}
			} else if err != nil || out.Text != "fine" {
				t.Errorf("afterwards %+v, %v", out, err)
			}
			if ids, err := text.Tokenize(within(t), "Hi", false, false); err != nil || len(ids) == 0 {
				t.Errorf("afterwards %v, %v", ids, err)
			}
		})
	}
}

// TestRenderAndGrammar: the guide's own template, and grammars good and bad.
func TestRenderAndGrammar(t *testing.T) {
	leaktest.Check(t)
	text := guideText(t)
	in := chattmpl.Input{Messages: []chattmpl.Message{{Role: "user", Content: "Hi"}}}
	out, err := text.Render(within(t), in, true)
	if err != nil || !out.Exact || len(out.Spans) != 1 || out.Text[out.Spans[0].Start:out.Spans[0].End] != "Hi" || !strings.HasSuffix(out.Text, "<|im_start|>assistant\n") {
		t.Errorf("%+v, %v", out, err)
	}
	if err := text.CheckGrammar(within(t), `root ::= "a" | [0-9]+`); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{"", "x", `root ::= "a"{5,2}`, "root ::= root", `root ::= <[5]>`, strings.Repeat("root ::= \"a\"\n", 2)} {
		if err := text.CheckGrammar(within(t), bad); code(err) != protocol.CodeGrammarInvalid {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
}
