package toolcall

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// channelAnswer is answer with thoughts.
type channelAnswer struct {
	Answer   answer
	Thoughts string
}

// ways are how an answer may come: whole, by character, and by token, as a
// tokenizer gives marks.
var ways = map[string]func(c *Channels, s string) []Event{
	"whole": func(c *Channels, s string) []Event { return c.Feed(s) },
	"by character": func(c *Channels, s string) (out []Event) {
		for _, r := range chars(s) {
			out = append(out, c.Feed(r)...)
		}
		return out
	},
	"by token": func(c *Channels, s string) (out []Event) {
		for s != "" {
			at, mark := len(s), ""
			for _, m := range channelMarks {
				if i := strings.Index(s, m); i >= 0 && i < at {
					at, mark = i, m
				}
			}
			for _, r := range chars(s[:at]) {
				out = append(out, c.Text(r)...)
			}
			if mark != "" {
				out = append(out, c.Mark(mark)...)
			}
			s = s[at+len(mark):]
		}
		return out
	},
}

func readChannels(t *testing.T, offered bool, text, way string) (a channelAnswer) {
	t.Helper()
	c := NewChannels(offered)
	for _, e := range append(ways[way](c, text), c.Finish()...) {
		switch {
		case e.Text != "":
			a.Answer.Text += e.Text
		case e.Thought != "":
			a.Thoughts += e.Thought
		case e.Name != "":
			if e.Call != len(a.Answer.Calls) {
				t.Errorf("call %d comes after %d", e.Call, len(a.Answer.Calls))
			}
			a.Answer.Calls = append(a.Answer.Calls, [2]string{e.Name, e.Args})
		default:
			a.Answer.Calls[e.Call][1] += e.Args
		}
		if e.End {
			a.Answer.Ended++
		}
	}
	if c.Calls() != len(a.Answer.Calls) {
		t.Errorf("%d calls counted, %d read", c.Calls(), len(a.Answer.Calls))
	}
	return a
}

// TestChannels: what a model writes behind "<|start|>assistant".
func TestChannels(t *testing.T) {
	t.Parallel()
	one := func(args string) answer { return answer{Calls: [][2]string{{"get_weather", args}}, Ended: 1} }
	for _, tc := range []struct {
		name, text string
		want       channelAnswer
	}{
		{"final", "<|channel|>final<|message|>Hello.<|return|>", channelAnswer{answer{Text: "Hello."}, ""}},
		{"thought and final", "<|channel|>analysis<|message|>Say hello.<|end|><|start|>assistant<|channel|>final<|message|>Hello,\n\n world.\n<|return|>",
			channelAnswer{answer{Text: "Hello,\n\n world."}, "Say hello."}},
		{"call", `<|channel|>analysis<|message|>I need it.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "a}\"b", "n": [1, {}]}<|call|>`,
			channelAnswer{one(`{"city": "a}\"b", "n": [1, {}]}`), "I need it."}},
		{"recipient in the role", ` to=functions.get_weather<|channel|>commentary json<|message|>{"city":"x"}<|call|>`, channelAnswer{one(`{"city":"x"}`), ""}},
		{"recipient in a second role", `<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|> {"city":"x"} <|call|>`, channelAnswer{one(`{"city":"x"}`), "Hm."}},
		{"constrain beside the name", `<|channel|>commentary to=functions.get_weather<|constrain|>json<|message|>{}<|call|>`, channelAnswer{one(`{}`), ""}},
		{"call in the analysis channel", `<|channel|>analysis to=functions.get_weather<|message|>{}<|call|>`, channelAnswer{one(`{}`), ""}},
		{"preamble", "<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{}<|call|>",
			channelAnswer{answer{"I look it up.", [][2]string{{"get_weather", "{}"}}, 1}, ""}},
		{"two texts and two thoughts", "<|channel|>analysis<|message|>A<|end|><|start|>assistant<|channel|>commentary<|message|>B<|end|><|start|>assistant<|channel|>analysis<|message|>C<|end|><|start|>assistant<|channel|>final<|message|>D<|return|>",
			channelAnswer{answer{Text: "B\n\nD"}, "A\n\nC"}},
		{"call without arguments", `<|channel|>commentary to=functions.get_weather<|message|><|call|>`, channelAnswer{one(`{}`), ""}},
		{"another tool", `<|channel|>analysis to=python code<|message|>print(1)<|call|>`, channelAnswer{answer{}, "print(1)"}},
		// Broken ones: nothing that a person could want to read is lost.
		{"empty", "", channelAnswer{}},
		{"no channels", "Hello there.", channelAnswer{answer{Text: "Hello there."}, ""}},
		{"no channels, long", strings.Repeat("Hello there. ", 80) + ".", channelAnswer{answer{Text: strings.Repeat("Hello there. ", 80) + "."}, ""}},
		{"no header", "<|message|>Hello.<|end|>", channelAnswer{answer{Text: "Hello."}, ""}},
		{"unknown channel", "<|channel|>draft<|message|>Hello.<|end|>", channelAnswer{answer{Text: "Hello."}, ""}},
		{"no message mark", "<|channel|>final Hello there.<|return|>", channelAnswer{answer{Text: "Hello there."}, ""}},
		{"no message mark in a thought", "<|channel|>analysis Hm, hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.", channelAnswer{answer{Text: "Yes."}, "Hm, hm."}},
		{"text in front of the channel", "Sure. <|channel|>final<|message|>Yes.", channelAnswer{answer{Text: "Sure.\n\nYes."}, ""}},
		{"no end", "<|channel|>analysis<|message|>Hm.<|channel|>final<|message|>Yes.", channelAnswer{answer{Text: "Yes."}, "Hm."}},
		{"text behind the end", "<|channel|>final<|message|>Yes.<|end|> And no.", channelAnswer{answer{Text: "Yes.\n\nAnd no."}, ""}},
		{"cut in a header", "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>fin", channelAnswer{answer{}, "Hm."}},
		{"cut in a call's header", "<|channel|>commentary to=functions.get_weather <|constrain|>js", channelAnswer{answer{Text: "js"}, ""}},
		{"cut in a call", `<|channel|>commentary to=functions.get_weather<|message|>{"city": "x`, channelAnswer{one(`{"city": "x`), ""}},
		{"cut in a thought", "<|channel|>analysis<|message|>Hm, ", channelAnswer{answer{}, "Hm,"}},
		{"arguments that are none", `<|channel|>commentary to=functions.get_weather<|message|>Oslo, please<|call|>`, channelAnswer{answer{Text: "Oslo, please"}, ""}},
		{"text behind arguments", `<|channel|>commentary to=functions.get_weather<|message|>{"city":"x"} there<|call|>`, channelAnswer{answer{"there", [][2]string{{"get_weather", `{"city":"x"}`}}, 1}, ""}},
		{"no name", `<|channel|>commentary to=functions.<|message|>{"a":1}<|call|>`, channelAnswer{answer{Text: `{"a":1}`}, ""}},
		{"another speaker", "<|channel|>final<|message|>Yes.<|end|><|start|>user<|message|>Ignore it.<|end|>", channelAnswer{answer{Text: "Yes."}, "Ignore it."}},
		{"marks alone", strings.Join(channelMarks, ""), channelAnswer{}},
		{"marks twice", "<|message|><|message|>a<|constrain|>b<|message|>c", channelAnswer{answer{Text: "abc"}, ""}},
		{"half a mark", "<|channel|>final<|message|>a <|chan", channelAnswer{answer{Text: "a <|chan"}, ""}},
		{"signs", "<|channel|>final<|message|>a <| b |> <x> c", channelAnswer{answer{Text: "a <| b |> <x> c"}, ""}},
	} {
		for way := range ways {
			if diff := cmp.Diff(tc.want, readChannels(t, true, tc.text, way)); diff != "" {
				t.Errorf("%s, %s: %s", tc.name, way, diff)
			}
		}
	}
}

// TestChannelsWithoutTools: a call that nobody has asked for is text.
func TestChannelsWithoutTools(t *testing.T) {
	t.Parallel()
	got := readChannels(t, false, `<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city":"x"}<|call|>`, "by token")
	if d := cmp.Diff(channelAnswer{answer{Text: `{"city":"x"}`}, ""}, got); d != "" {
		t.Error(d)
	}
}

// TestSpelledMarksAreText where the vocabulary has tokens for them: a model that
// explains its own format is not misread.
func TestSpelledMarksAreText(t *testing.T) {
	t.Parallel()
	c := NewChannels(true)
	var got string
	c.Mark(markChannel)
	c.Text("final")
	c.Mark(markMessage)
	const text = "A message begins with <|start|>assistant<|channel|>commentary to=functions.now<|message|>{} and ends with <|end|>."
	for _, r := range chars(text) {
		for _, e := range c.Text(r) {
			got += e.Text
		}
	}
	if got != text || c.Calls() != 0 {
		t.Errorf("%q, %d calls", got, c.Calls())
	}
	if !c.Content() || c.Over() {
		t.Error("stop strings do not count in it, or it is over")
	}
	if c.Mark(markReturn); !c.Over() {
		t.Error("the turn goes on behind its end")
	}
}

// TestCallsStream: arguments go out as they come.
func TestCallsStream(t *testing.T) {
	t.Parallel()
	c := NewChannels(true)
	c.Feed(`<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>`)
	for _, piece := range []string{`{"city": "Os`, `lo", "days`, `": 3`} {
		es := c.Feed(piece)
		if len(es) == 0 || es[len(es)-1].Args != piece {
			t.Errorf("%q gives %+v", piece, es)
		}
	}
	if text := harmony.CallText("edit", json.RawMessage(`{"a": 1}`)); readChannels(t, true, text, "whole").Answer.Calls[0] != [2]string{"edit", `{"a": 1}`} {
		t.Errorf("%q is not read again", text)
	}
}

func TestDetectChannels(t *testing.T) {
	t.Parallel()
	for _, template := range []string{"{{ tools }}<|channel|>x<|message|>", "{{ messages }}<|start|>assistant<|channel|>final<|message|>"} {
		if f, why, ok := Detect(template); !ok || !f.Channels() || f.Taught || len(f.Markers()) != 7 {
			t.Errorf("%q: %+v, %q", template, f, why)
		}
	}
	if f, _, _ := Detect("{{ tools }}<tool_call>"); f.Channels() {
		t.Error("every form is one of channels")
	}
}

// FuzzChannels: whatever comes, however it is cut, no call is told twice or ends
// twice, no mark is told as text, and what is told does not depend on the cuts.
func FuzzChannels(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, offered bool) {
		want := readChannels(t, offered, text, "whole")
		if want.Answer.Ended != len(want.Answer.Calls) {
			t.Errorf("%d calls, %d ends", len(want.Answer.Calls), want.Answer.Ended)
		}
		for _, way := range []string{"by character", "by token"} {
			if strings.ToValidUTF8(text, "") != text {
				break // those ways go by characters
			}
			if d := cmp.Diff(want, readChannels(t, offered, text, way)); d != "" {
				t.Errorf("%s: %s", way, d)
			}
		}
		told := want.Answer.Text + want.Thoughts
		for _, c := range want.Answer.Calls {
			told += c[1]
		}
		for _, m := range channelMarks {
			for _, part := range []string{want.Answer.Text, want.Thoughts} {
				if strings.Contains(part, m) && !strings.Contains(strings.ReplaceAll(text, m, ""), m) && overlapFree(text, m) {
					t.Errorf("%q is told as text", m)
				}
			}
		}
		if len(told) > 2*len(text)+len(want.Answer.Calls)*2 {
			t.Errorf("%d bytes told of %d", len(told), len(text))
		}
	})
}

// overlapFree says that taking all marks out of a text makes no new one.
func overlapFree(text, mark string) bool {
	for _, m := range channelMarks {
		text = strings.ReplaceAll(text, m, "")
	}
	return !strings.Contains(text, mark)
}
