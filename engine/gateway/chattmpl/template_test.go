package chattmpl

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
)

func TestChatML(t *testing.T) {
	t.Parallel()
	tm, err := Compile("")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tm.Render(t.Context(), Input{Messages: []Message{{Role: "system", Content: "Be kind."}, {Role: "user", Content: "Hi"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestHostile: each of these would run for ever, end the process or fill the
// memory without the guards.
func TestHostile(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]string{
		"loops":          "{% set r = range(60000) %}{% for a in r %}{% for b in r %}{% for c in r %}x{% endfor %}{% endfor %}{% endfor %}",
		"recursion":      "{% macro a() %}{{ a() }}{% endmacro %}{{ a() }}",
		"mutual":         "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ b() }}",
		"range":          "{{ range(1000000000000) | length }}",
		"range overflow": "{{ range(9223372036854775000, 9223372036854775807, 1000) | length }}{{ range(1, 2, 0) }}",
		"raise":          "{{ raise_exception('only user messages') }}",
		"brackets":       "{{ " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000) + " }}",
		"blocks":         strings.Repeat("{% if true %}", 5000) + strings.Repeat("{% endif %}", 5000),
		"size":           strings.Repeat("x", MaxSource+1),
		"unclosed":       "{% for x in y",
		"raw":            "{% raw %} x",
		"panic":          "{{ 'x' * -1 }}",
		"output":         "{% for a in range(1000) %}" + strings.Repeat("x", 100000) + "{% endfor %}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			start := time.Now()
			tm, err := Compile(src)
			if err == nil {
				_, err = tm.Render(t.Context(), Input{Messages: []Message{{Role: "user", Content: "x"}}})
			}
			if !errors.Is(err, &protocol.Error{Code: protocol.CodeTemplateInvalid}) {
				t.Errorf("error is %v", err)
			}
			if d := time.Since(start); d > 10*MaxTime {
				t.Errorf("took %v", d)
			}
		})
	}
}

func TestSpans(t *testing.T) {
	t.Parallel()
	msgs := []Message{{Role: "user", Content: " a b\n"}, {Role: "user", Content: ""}, {Role: "user", Content: "c\U000F0001"}}
	for name, tc := range map[string]struct {
		src  string
		want []Span
		err  error
	}{
		"as it is":  {"{% for m in messages %}[{{ m.content }}]{% endfor %}", []Span{{0, 2, 5}, {2, 10, 15}}, nil},
		"trimmed":   {"{% for m in messages %}[{{ m.content | trim }}]{% endfor %}", []Span{{0, 1, 4}, {2, 8, 13}}, nil},
		"twice":     {"{{ messages[0].content }}{{ messages[0].content }}", []Span{{0, 1, 4}, {0, 6, 9}}, nil},
		"not shown": {"x", nil, nil},
		"inspected": {"{% if messages[0].content.startswith(' a') %}y{% endif %}{{ messages[0].content[:2] }}", nil, ErrNoSpans},
		"measured":  {"{{ messages[2].content | length }}", nil, ErrNoSpans},
		"nested":    {"{{ messages[0].content.replace('b', messages[2].content) }}", nil, ErrNoSpans},
	} {
		t.Run(name, func(t *testing.T) {
			tm, err := Compile(tc.src)
			if err != nil {
				t.Fatal(err)
			}
			_, got, err := tm.RenderSpans(t.Context(), Input{Messages: msgs})
			if err != tc.err {
				t.Fatalf("error is %v", err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVarsAndClock(t *testing.T) {
	t.Parallel()
	tm, err := Compile("{{ bos_token }}{{ strftime_now('%d %b %Y') }} {{ enable_thinking }} {{ messages[0].name }}{{ tools is none }}")
	if err != nil {
		t.Fatal(err)
	}
	got, err := tm.Render(t.Context(), Input{
		BOS: "<s>", Now: time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC), Messages: []Message{{Role: "user", Content: "x", Name: "eve"}},
		Vars: map[string]any{"enable_thinking": false, "bos_token": "other"},
	})
	if err != nil || got != "<s>04 Mar 2026 False eveTrue" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestLastNewline: one newline at the end of a template is not text.
func TestLastNewline(t *testing.T) {
	t.Parallel()
	for src, want := range map[string]string{"a\n": "a", "{{ 'a' }}\n": "a", "a\n\n": "a\n", "a\r\n": "a"} {
		tm, err := Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := tm.Render(t.Context(), Input{}); err != nil || got != want {
			t.Errorf("%q gives %q, %v", src, got, err)
		}
	}
}

func TestStrftime(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for layout, want := range map[string]string{
		"%Y-%m-%d": "2026-01-02", "%-d %B %y": "2 January 26", "%A %a %h %j": "Friday Fri Jan 002", "%H:%M:%S %I %p": "15:04:05 03 PM",
		"%e %F %T %Z %z": " 2 2026-01-02 15:04:05 UTC +0000", "100%% %q %": "100% %q %",
	} {
		if got := strftime(at, layout); got != want {
			t.Errorf("%s: %q", layout, got)
		}
	}
}

func TestCache(t *testing.T) {
	t.Parallel()
	c := NewCache(2)
	a, _ := c.Compile("a")
	c.Compile("b")
	if again, _ := c.Compile("a"); again != a {
		t.Error("not cached")
	}
	c.Compile("c")
	if len(c.byKey) != 2 || c.byKey["b"] != nil || c.byKey["a"] != a {
		t.Errorf("cache holds %v", c.order)
	}
	if _, err := c.Compile("{{"); err == nil {
		t.Error("no error")
	}
}

func FuzzCompile(f *testing.F) {
	f.Add("{% for m in messages -%}{{ m.content }}{%- endfor %}")
	f.Add("{% macro a(x) %}{{ x }}{% endmacro %}{{ a(1) }}")
	f.Add("{% raw %}{{ x }}{% endraw %}{# ' #}{{ '}}' }}")
	f.Fuzz(func(t *testing.T, src string) {
		tm, err := Compile(src)
		if err != nil {
			return
		}
		out, err := tm.Render(t.Context(), Input{Messages: []Message{{Role: "user", Content: "hello"}}})
		if err == nil && len(out) > MaxOutput {
			t.Errorf("%d bytes", len(out))
		}
	})
}
