package gateway_test

import (
	"encoding/json"
	"strings"
	"testing"

	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
)

// channelTemplate has what of gpt-oss' template the gateway goes by.
const channelTemplate = `{% if tools %}functions: {% for t in tools %}{{ t.function.name }} {% endfor %}{% endif %}` +
	`{% for m in messages %}{% if m.tool_calls %}<|start|>assistant to=functions.{{ m.tool_calls[0].function.name }}<|channel|>commentary json<|message|>{{ m.tool_calls[0].function.arguments|tojson }}<|call|>` +
	`{% else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}<|start|>assistant`

var channelIDs = map[string]int32{
	"<|start|>": gatewaytest.Start, "<|channel|>": gatewaytest.Channel, "<|constrain|>": gatewaytest.Constrain, "<|message|>": gatewaytest.Message,
	"<|end|>": gatewaytest.End, "<|call|>": gatewaytest.Call, "<|return|>": gatewaytest.Return,
}

// channelTokens is a text as tokens: marks as control tokens, whose pieces are
// empty or (as libllama gives those of some) their text; the rest by bytes.
func channelTokens(text string, spelled bool) (out []protocol.Token) {
	for text != "" {
		at, mark := len(text), ""
		for m := range channelIDs {
			if i := strings.Index(text, m); i >= 0 && i < at {
				at, mark = i, m
			}
		}
		for i := range at {
			out = append(out, protocol.Token{ID: int32(text[i]), Piece: []byte{text[i]}, Logprob: -1})
		}
		if mark != "" {
			tok := protocol.Token{ID: channelIDs[mark], Logprob: -1}
			if spelled {
				tok.Piece = []byte(mark)
			}
			out = append(out, tok)
		}
		text = text[at+len(mark):]
	}
	return out
}

func channelFake(text string, spelled bool) *gatewaytest.Fake {
	f := gatewaytest.New()
	f.Template = channelTemplate
	f.Script = func(gateway.GenerateRequest) gatewaytest.Script {
		return gatewaytest.Script{Tokens: channelTokens(text, spelled)}
	}
	return f
}

// channelReply is what of an answer tells its channels apart.
type channelReply struct {
	Content   *string `json:"content"`
	Reasoning string  `json:"reasoning_content"`
	Calls     []struct {
		Function struct{ Name, Arguments string } `json:"function"`
	} `json:"tool_calls"`
}

// ask gives an answer as a whole and the same as a stream put together.
func askChannels(t *testing.T, f *gatewaytest.Fake, more string) (whole, streamed channelReply, finish string) {
	t.Helper()
	_, srv := serve(t, f, nil)
	var c struct {
		Choices []struct {
			Message channelReply `json:"message"`
			Delta   channelReply `json:"delta"`
			Finish  string       `json:"finish_reason"`
		} `json:"choices"`
	}
	resp, body := post(t, srv, "/v1/chat/completions", chatBody(more))
	if resp.StatusCode != 200 || json.Unmarshal([]byte(body), &c) != nil || len(c.Choices) != 1 {
		t.Fatalf("%d %s", resp.StatusCode, body)
	}
	whole, finish = c.Choices[0].Message, c.Choices[0].Finish
	_, body = post(t, srv, "/v1/chat/completions", chatBody(`,"stream":true`+more))
	text := ""
	streamed.Content = &text
	for _, e := range events(body) {
		c.Choices = nil
		if e.data == "[DONE]" || e.name != "" || json.Unmarshal([]byte(e.data), &c) != nil {
			continue
		}
		for _, ch := range c.Choices {
			if ch.Delta.Content != nil {
				text += *ch.Delta.Content
			}
			streamed.Reasoning += ch.Delta.Reasoning
			for _, call := range ch.Delta.Calls {
				if call.Function.Name != "" {
					streamed.Calls = append(streamed.Calls, call)
					continue
				}
				streamed.Calls[len(streamed.Calls)-1].Function.Arguments += call.Function.Arguments
			}
			if ch.Finish != "" && ch.Finish != finish {
				t.Errorf("ends with %s as a whole, %s streamed", finish, ch.Finish)
			}
		}
	}
	return whole, streamed, finish
}

func content(r channelReply) string {
	if r.Content == nil {
		return ""
	}
	return *r.Content
}

// TestChannels: thoughts, text and calls of a model that answers in channels, for
// tokens with and without a text of their own.
func TestChannels(t *testing.T) {
	t.Parallel()
	const thought = "<|channel|>analysis<|message|>The user wants Ösl€.<|end|><|start|>assistant"
	for _, tc := range []struct {
		name, answer, more           string
		text, thoughts, args, finish string
	}{
		{"text", thought + "<|channel|>final<|message|>It is Ösl€.<|return|>", "", "It is Ösl€.", "The user wants Ösl€.", "", "stop"},
		{"call", thought + `<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>{"city": "Oslo"}<|call|>`, `,` + weatherTool, "", "The user wants Ösl€.", `{"city": "Oslo"}`, "tool_calls"},
		{"call, then something invented", `<|channel|>commentary to=functions.get_weather<|message|>{"city": "Oslo"}<|call|><|start|>functions.get_weather<|message|>rain<|end|>`, `,` + weatherTool, "", "", `{"city": "Oslo"}`, "tool_calls"},
		{"preamble and call", `<|channel|>commentary<|message|>Let me look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather<|message|>{}<|call|>`, `,` + weatherTool, "Let me look.", "", `{}`, "tool_calls"},
		{"no tools", `<|channel|>commentary to=functions.get_weather<|message|>{"city": "Oslo"}<|call|>`, "", `{"city": "Oslo"}`, "", "", "stop"},
		{"no channels", "Hello.", "", "Hello.", "", "", "stop"},
		{"a stop string in the text alone", "<|channel|>analysis<|message|>one STOP two<|end|><|start|>assistant<|channel|>final<|message|>three STOP four", `,"stop":["STOP"]`, "three", "one STOP two", "", "stop"},
		{"a stop string that is in a mark", "<|channel|>final<|message|>a|b<|end|>", `,"stop":["message","|>"]`, "a|b", "", "", "stop"},
		{"half a character", "<|channel|>final<|message|>a\xe2\x82<|return|>", "", "a\uFFFD", "", "", "stop"},
		{"probabilities", thought + "<|channel|>final<|message|>Yes.<|return|>", `,"logprobs":true`, "Yes.", "The user wants Ösl€.", "", "stop"},
	} {
		for _, spelled := range []bool{false, true} {
			whole, streamed, finish := askChannels(t, channelFake(tc.answer, spelled), tc.more)
			for way, got := range map[string]channelReply{"whole": whole, "streamed": streamed} {
				args := ""
				for _, c := range got.Calls {
					args += c.Function.Arguments
				}
				// A trailing blank is of the text in front of a stop string.
				if strings.TrimSpace(content(got)) != tc.text || got.Reasoning != tc.thoughts || args != tc.args || finish != tc.finish {
					t.Errorf("%s, %s, spelled %t: %q, thoughts %q, arguments %q, %s", tc.name, way, spelled, content(got), got.Reasoning, args, finish)
				}
			}
		}
	}
}

// TestChannelProbabilities are those of the text alone.
func TestChannelProbabilities(t *testing.T) {
	t.Parallel()
	f := channelFake("<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes.<|return|>", true)
	_, srv := serve(t, f, nil)
	_, body := post(t, srv, "/v1/chat/completions", chatBody(`,"logprobs":true`))
	var c struct {
		Choices []struct {
			Logprobs struct{ Content []struct{ Token string } }
		}
	}
	if err := json.Unmarshal([]byte(body), &c); err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, tok := range c.Choices[0].Logprobs.Content {
		text += tok.Token
	}
	if text != "Yes." {
		t.Errorf("probabilities of %q: %s", text, body)
	}
}

// TestChannelGrammars: a format and a forced call hold for the last message; the
// model may think first.
func TestChannelGrammars(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		`,"response_format":{"type":"json_object"}`:                                           `"<|channel|>final<|message|>"`,
		`,"tool_choice":"required",` + weatherTool:                                            `"<|channel|>commentary to=functions."`,
		`,"tool_choice":"none","response_format":{"type":"json_object"},` + weatherTool:       `"<|channel|>final<|message|>"`,
		`,"tool_choice":{"type":"function","function":{"name":"get_weather"}},` + weatherTool: `"get_weather <|constrain|>json<|message|>"`,
	} {
		f := channelFake("<|channel|>final<|message|>{}<|return|>", false)
		_, srv := serve(t, f, nil)
		if resp, body := post(t, srv, "/v1/chat/completions", chatBody(more)); resp.StatusCode != 200 {
			t.Errorf("%s: %s", more, body)
			continue
		}
		if g := f.Requests()[0].Sampler.Grammar; !strings.Contains(g, want) || !strings.Contains(g, `"<|channel|>analysis<|message|>"`) {
			t.Errorf("%s: %s", more, g)
		}
	}
	f := channelFake("yes", false)
	whole, _, _ := askChannels(t, f, `,"grammar":"root ::= \"yes\""`)
	if content(whole) != "yes" {
		t.Errorf("a grammar of the client's own: %q", content(whole))
	}
}

// TestChannelConversation: calls of one message are shown one by one, each with
// its answer.
func TestChannelConversation(t *testing.T) {
	t.Parallel()
	f := channelFake("<|channel|>final<|message|>Rain.<|return|>", false)
	_, srv := serve(t, f, nil)
	call := func(id, city string) string {
		return `{"id":"` + id + `","type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"` + city + `\"}"}}`
	}
	resp, body := post(t, srv, "/v1/chat/completions", `{"model":"fake/model","messages":[{"role":"user","content":"Hi"},{"role":"assistant","tool_calls":[`+call("a", "Oslo")+`,`+call("b", "Bonn")+`]},`+
		`{"role":"tool","tool_call_id":"b","content":"dry"},{"role":"tool","tool_call_id":"a","content":"wet"}],`+weatherTool+`}`)
	if resp.StatusCode != 200 {
		t.Fatal(body)
	}
	want := []string{"Oslo", "wet", "Bonn", "dry"}
	text, at := promptText(f.Requests()[0]), 0
	for _, w := range want {
		i := strings.Index(text[at:], w)
		if i < 0 {
			t.Fatalf("not %v in this order: %q", want, text)
		}
		at += i
	}
}
