package worker

import (
	"encoding/json"
	"testing"

	"neuron/engine/gateway/schema"
	"neuron/engine/gateway/toolcall"
)

// TestChannelGrammars: in channels a thought may come first, a call is the last
// message, and behind a text no message may begin that is no call.
func TestChannelGrammars(t *testing.T) {
	v := guideVocab(t)
	form, _, ok := toolcall.Detect("tools <|channel|> <|message|>")
	if !ok || !form.Channels() {
		t.Fatal("no form of channels")
	}
	tools := []toolcall.Tool{{Name: "one", Strict: true, Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`)}, {Name: "two"}}
	const thought = "<|channel|>analysis<|message|>Well <|en <x>.<|end|><|start|>assistant"
	const call = "<|channel|>commentary to=functions."
	const body = " <|constrain|>json<|message|>"
	check := func(what string, d toolcall.Demand, answers map[string]bool) {
		t.Helper()
		g, err := form.Grammar(schema.NewBuilder(), tools, d)
		if err != nil {
			t.Fatal(err)
		}
		for text, want := range answers {
			if got := admits(t, v, g, text); got != want {
				t.Errorf("%s: %q passes %v\n%s", what, text, got, g)
			}
		}
	}
	check("forced", toolcall.Demand{}, map[string]bool{
		call + "one" + body + `{"a": 1}`:               true,
		thought + call + "two" + body + `{"x": []}`:    true,
		thought + thought + call + "two" + body + "{}": false,
		call + "one" + body + `{"b": 1}`:               false,
		call + "three" + body + "{}":                   false,
		"<|channel|>final<|message|>Hello":             false,
		thought + "<|channel|>final<|message|>Hello":   false,
		"": false,
		call + "one" + body + `{"a": 1}` + "<|channel|>analysis": false,
	})
	check("free", toolcall.Demand{Text: true}, map[string]bool{
		"<|channel|>final<|message|>Hello <|sta <|start|":                                          true,
		thought + "<|channel|>final<|message|>":                                                    true,
		thought + call + "one" + body + `{"a": 1}`:                                                 true,
		call + "one" + body + `{"a": "x"}`:                                                         false,
		"<|channel|>final<|message|>I look.<|end|><|start|>assistant" + call + "two" + body + "{}": true,
		"<|channel|>final<|message|>I look.<|end|><|start|>assistant" + call + "one" + body + "{}": false,
		"<|channel|>final<|message|>I look.<|end|><|start|>user<|message|>Hello":                   false,
		"Hello": false,
	})
	check("value", toolcall.Demand{Text: true, Value: `"yes"`}, map[string]bool{
		thought + "<|channel|>final<|message|>yes": true,
		"<|channel|>final<|message|>no":            false,
		call + "two" + body + "{}":                 true,
	})
	b := schema.NewBuilder()
	g, err := toolcall.ChannelGrammar(b, b.Object())
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		`<|channel|>final<|message|>{"a": 1}`: true, thought + "<|channel|>final<|message|>{}": true, "<|channel|>final<|message|>a": false, "{}": false, call + "two" + body + "{}": false,
	} {
		if got := admits(t, v, g, text); got != want {
			t.Errorf("format: %q passes %v\n%s", text, got, g)
		}
	}
}
