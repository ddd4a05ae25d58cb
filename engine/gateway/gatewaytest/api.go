package gatewaytest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"

	"neuron/engine/protocol"
)

// API is a gateway under test, over HTTP.
type API struct {
	URL   string // with /v1
	Key   string
	Model string
	// Real: a model answers. The fake's answers follow a script, see Scripted.
	Real bool
}

// Question is what the suite asks; a real model answers it with at least a
// dozen tokens of text at temperature 0.
const Question = "What is Neuron?"

// Body is a chat request with further fields.
func (a API) Body(more string) string {
	return `{"model":"` + a.Model + `","messages":[{"role":"user","content":"` + Question + `"}],"temperature":0,"max_tokens":48` + more + `}`
}

// Post sends a request; the caller closes the answer's body.
func (a API) Post(ctx context.Context, t testing.TB, path, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+a.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// answer is what the suite looks at in an answer or event.
type answer struct {
	ID      string
	Choices []struct {
		Index   int
		Text    string
		Message message
		Delta   message
		Finish  *string `json:"finish_reason"`
		Logs    *struct {
			Content []tokenLog
		} `json:"logprobs"`
	}
	Usage *struct {
		Prompt     int `json:"prompt_tokens"`
		Completion int `json:"completion_tokens"`
		Total      int `json:"total_tokens"`
	}
	Error *struct {
		Code, Message string
		Param         *string
		Detail        map[string]string
	}
}

type message struct {
	Role, Content string
	Calls         []struct {
		Index    int
		ID       string
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

type tokenLog struct {
	Token   string
	Logprob float64
	Bytes   []byte
	Top     []tokenLog `json:"top_logprobs"`
}

// UnmarshalJSON reads bytes as the API writes them, a list of numbers.
func (l *tokenLog) UnmarshalJSON(raw []byte) error {
	var v struct {
		Token   string
		Logprob float64
		Bytes   []int
		Top     []tokenLog `json:"top_logprobs"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	*l = tokenLog{Token: v.Token, Logprob: v.Logprob, Top: v.Top}
	for _, b := range v.Bytes {
		l.Bytes = append(l.Bytes, byte(b))
	}
	return nil
}

// ask sends a chat request and wants status.
func (a API) ask(t testing.TB, more string, status int) answer {
	t.Helper()
	return a.request(t, "/chat/completions", a.Body(more), status)
}

func (a API) request(t testing.TB, path, body string, status int) (out answer) {
	t.Helper()
	resp := a.Post(t.Context(), t, path, body)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		t.Fatalf("%d instead of %d, %v, for %.200s: %s", resp.StatusCode, status, err, body, raw)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if status == http.StatusOK && len(out.Choices) == 0 {
		t.Fatalf("no choices in %s", raw)
	}
	return out
}

// stream reads a streamed answer: the text and finish reason per choice, the
// usage, and the number of events with text.
func (a API) stream(t testing.TB, more string) (texts map[int]string, finish map[int]string, last answer, deltas int) {
	t.Helper()
	resp := a.Post(t.Context(), t, "/chat/completions", a.Body(`,"stream":true,"stream_options":{"include_usage":true}`+more))
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(resp.Body)
		t.Fatalf("%d %s", resp.StatusCode, raw)
	}
	texts, finish = map[int]string{}, map[int]string{}
	done := false
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		last = answer{}
		if err := json.Unmarshal([]byte(data), &last); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		for _, c := range last.Choices {
			if c.Delta.Content != "" {
				deltas++
			}
			texts[c.Index] += c.Delta.Content
			if c.Finish != nil {
				finish[c.Index] += *c.Finish
			}
		}
	}
	if !done || lines.Err() != nil {
		t.Errorf("the stream ends without [DONE]: %v", lines.Err())
	}
	return texts, finish, last, deltas
}

// Tool and Schema are what the suite asks for.
const (
	Tool   = `"tools":[{"type":"function","function":{"name":"get_weather","description":"The weather of a city","parameters":` + Schema + `}}]`
	Schema = `{"type":"object","properties":{"city":{"type":"string","maxLength":12},"days":{"type":"integer","minimum":1,"maximum":5}},"required":["city","days"],"additionalProperties":false}`
)

// forecast is what Schema describes.
type forecast struct {
	City string
	Days int
}

func readForecast(t testing.TB, text string) {
	t.Helper()
	var f forecast
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil || f.Days < 1 || f.Days > 5 || len([]rune(f.City)) > 12 {
		t.Errorf("%q does not fit the schema: %+v, %v", text, f, err)
	}
}

// APISuite checks what clients rely on.
func APISuite(t *testing.T, a API) {
	plain := a.ask(t, "", http.StatusOK)
	text := plain.Choices[0].Message.Content
	if len([]rune(text)) < 12 || plain.Choices[0].Message.Role != "assistant" {
		t.Fatalf("the answer to build on is %q", text)
	}
	t.Run("streamed and whole are the same", func(t *testing.T) {
		texts, finish, last, deltas := a.stream(t, "")
		if texts[0] != text || finish[0] != *plain.Choices[0].Finish || deltas < 2 {
			t.Errorf("%q, %q in %d deltas", texts[0], finish[0], deltas)
		}
		if last.Usage == nil || *last.Usage != *plain.Usage || last.Usage.Total != last.Usage.Prompt+last.Usage.Completion {
			t.Errorf("usage %+v and %+v", last.Usage, plain.Usage)
		}
	})
	t.Run("length", func(t *testing.T) {
		got := a.ask(t, `,"max_completion_tokens":3`, http.StatusOK)
		if *got.Choices[0].Finish != "length" || got.Usage.Completion != 3 || !strings.HasPrefix(text, got.Choices[0].Message.Content) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("n", func(t *testing.T) {
		got := a.ask(t, `,"n":2`, http.StatusOK)
		if len(got.Choices) != 2 || got.Choices[1].Index != 1 || got.Choices[1].Message.Content != text || got.Usage.Completion != 2*plain.Usage.Completion || got.Usage.Prompt != plain.Usage.Prompt {
			t.Errorf("%+v", got)
		}
		texts, finish, _, _ := a.stream(t, `,"n":2`)
		if texts[0] != text || texts[1] != text || len(finish) != 2 {
			t.Errorf("%v, %v", texts, finish)
		}
	})
	t.Run("stop", func(t *testing.T) {
		r := []rune(text)
		stop := string(r[6:9]) // no matter where tokens end
		at := strings.Index(text, stop)
		raw, err := json.Marshal(stop)
		if err != nil {
			t.Fatal(err)
		}
		for _, more := range []string{`,"stop":` + string(raw), `,"stop":["\u0001 never",` + string(raw) + `]`} {
			got := a.ask(t, more, http.StatusOK)
			if got.Choices[0].Message.Content != text[:at] || *got.Choices[0].Finish != "stop" {
				t.Errorf("%q with %s", got.Choices[0].Message.Content, more)
			}
			if texts, finish, _, _ := a.stream(t, more); texts[0] != text[:at] || finish[0] != "stop" {
				t.Errorf("streamed %q", texts[0])
			}
		}
	})
	t.Run("logprobs", func(t *testing.T) {
		got := a.ask(t, `,"logprobs":true,"top_logprobs":3`, http.StatusOK)
		logs := got.Choices[0].Logs
		if logs == nil || len(logs.Content) != plain.Usage.Completion {
			t.Fatalf("%d tokens, logprobs %+v", plain.Usage.Completion, logs)
		}
		var all bytes.Buffer
		for i, l := range logs.Content {
			all.Write(l.Bytes)
			sum := 0.0
			for k, top := range l.Top {
				sum += math.Exp(top.Logprob)
				if k > 0 && top.Logprob > l.Top[k-1].Logprob {
					t.Errorf("token %d: alternatives are not in order: %+v", i, l.Top)
				}
			}
			if len(l.Top) != 3 || sum > 1.0001 || l.Logprob > 0 {
				t.Errorf("token %d: %+v", i, l)
			}
			if a.Real && (l.Top[0].Logprob != l.Logprob || !bytes.Equal(l.Top[0].Bytes, l.Bytes)) {
				t.Errorf("token %d at temperature 0 is not the best one: %+v", i, l)
			}
		}
		if all.String() != text {
			t.Errorf("the tokens' bytes are %q, the text is %q", all.String(), text)
		}
	})
	t.Run("JSON", func(t *testing.T) {
		got := a.ask(t, `,"max_tokens":200,"response_format":{"type":"json_schema","json_schema":{"name":"forecast","strict":true,"schema":`+Schema+`}}`, http.StatusOK)
		readForecast(t, got.Choices[0].Message.Content)
		texts, _, _, _ := a.stream(t, `,"response_format":{"type":"json_schema","json_schema":{"name":"forecast","schema":`+Schema+`}}`)
		readForecast(t, texts[0])
		got = a.ask(t, `,"max_tokens":400,"response_format":{"type":"json_object"},"temperature":1,"seed":7`, http.StatusOK)
		var object map[string]any
		if err := json.Unmarshal([]byte(got.Choices[0].Message.Content), &object); err != nil && *got.Choices[0].Finish != "length" {
			t.Errorf("%v in %q", err, got.Choices[0].Message.Content)
		}
	})
	t.Run("tools", func(t *testing.T) {
		for _, choice := range []string{`"required"`, `{"type":"function","function":{"name":"get_weather"}}`} {
			got := a.ask(t, `,"max_tokens":200,"parallel_tool_calls":false,"tool_choice":`+choice+`,`+Tool, http.StatusOK)
			m := got.Choices[0].Message
			if len(m.Calls) != 1 || m.Calls[0].Function.Name != "get_weather" || m.Calls[0].ID == "" || m.Content != "" {
				t.Fatalf("%+v", got)
			}
			readForecast(t, m.Calls[0].Function.Arguments)
			want := "tool_calls"
			if choice[0] == '{' {
				want = "stop"
			}
			if *got.Choices[0].Finish != want {
				t.Errorf("%s finishes with %s", choice, *got.Choices[0].Finish)
			}
		}
		got := a.ask(t, `,"tool_choice":"none",`+Tool, http.StatusOK)
		if a.Real && (len(got.Choices[0].Message.Calls) != 0 || got.Usage.Prompt != plain.Usage.Prompt) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("refused", func(t *testing.T) {
		for _, tc := range []struct {
			path, body string
			status     int
			code       protocol.Code
		}{
			{"/chat/completions", a.Body(`,"grammar":"root ::= ("`), 400, protocol.CodeGrammarInvalid},
			{"/chat/completions", a.Body(`,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"not":{}}}}`), 400, protocol.CodeUnsupported},
			{"/chat/completions", strings.Replace(a.Body(`,"max_tokens":100000000`), `"max_tokens":48,`, "", 1), 400, protocol.CodeContextExceeded},
			{"/chat/completions", `{"model":"` + a.Model + `","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:,"}}]}]}`, 400, protocol.CodeUnsupported},
			{"/embeddings", `{"model":"` + a.Model + `","input":"x"}`, 400, protocol.CodeUnsupported},
			{"/chat/completions", `{"model":"none","messages":[{"role":"user","content":"x"}]}`, 404, protocol.CodeModelUnknown},
		} {
			if tc.code == protocol.CodeGrammarInvalid && !a.Real {
				tc.body = a.Body(`,"grammar":"r ::="`)
			}
			got := a.request(t, tc.path, tc.body, tc.status)
			if got.Error == nil || got.Error.Code != string(tc.code) || got.Error.Message == "" {
				t.Errorf("%.120s: %+v", tc.body, got.Error)
			}
			if tc.code == protocol.CodeContextExceeded && got.Error.Detail["fits"] == "" {
				t.Errorf("%+v", got.Error)
			}
		}
	})
	t.Run("plain completion", func(t *testing.T) {
		got := a.request(t, "/completions", `{"model":"`+a.Model+`","prompt":"Once","max_tokens":4,"temperature":0,"echo":true}`, http.StatusOK)
		if !strings.HasPrefix(got.Choices[0].Text, "Once") || got.Usage.Completion > 4 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a chat page's request", func(t *testing.T) {
		// What Open WebUI sends: fields that are null, and many of its own.
		got := a.ask(t, `,"stop":null,"temperature":null,"top_p":null,"seed":null,"frequency_penalty":null,"logit_bias":null,"tools":null,"response_format":null,
			"stream":false,"params":{},"tool_servers":[],"features":{"image_generation":false,"code_interpreter":false,"web_search":false,"memory":false},
			"variables":{"{{USER_NAME}}":"u"},"model_item":{"id":"m","object":"model"},"session_id":"s","chat_id":"c","id":"i","metadata":{"a":"b"},
			"background_tasks":{"title_generation":true,"tags_generation":true,"follow_up_generation":true},"options":{"num_ctx":2048},"user":"u","store":false,"service_tier":"auto"`, http.StatusOK)
		if got.Choices[0].Message.Content == "" {
			t.Errorf("%+v", got)
		}
	})
	if a.Real {
		t.Run("samplers", func(t *testing.T) { samplers(t, a) })
		t.Run("special tokens", func(t *testing.T) { specialTokens(t, a) })
	}
	t.Run("watched while it runs", func(t *testing.T) { watched(t, a) })
	t.Run("the client leaves", func(t *testing.T) { clientLeaves(t, a) })
	if a.Real { // the fake would be done
		t.Run("the client hangs up", func(t *testing.T) { clientHangsUp(t, a) })
	}
}

// Telemetry asks for a session's snapshot.
func (a API) Telemetry(t testing.TB, id string) (tm protocol.Telemetry) {
	t.Helper()
	a.get(t, "/sessions/"+id, &tm)
	return tm
}

func (a API) get(t testing.TB, path string, out any) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		t.Fatal(err)
	}
}
