// Package apiclient is a small client of the gateway's OpenAI API for our own
// command line and tools: streaming chat with telemetry. Programs of others
// use the official clients.
package apiclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"neuron/engine/protocol"
)

// Client talks to one gateway.
type Client struct {
	url, key string
	http     *http.Client
}

// New returns a client of the API at url, which ends in /v1.
func New(url, key string) *Client {
	return &Client{url: strings.TrimSuffix(url, "/"), key: key, http: &http.Client{}}
}

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// ChatRequest asks for one answer. Zero numbers leave the server's defaults,
// but Temperature is always sent.
type ChatRequest struct {
	Model       string    `json:"model"`
	Messages    []Message `json:"messages"`
	MaxTokens   int       `json:"max_tokens,omitempty"`
	Temperature float64   `json:"temperature"`
	Seed        *uint32   `json:"seed,omitempty"`
	IgnoreEOS   bool      `json:"ignore_eos,omitempty"`
	// Logprobs asks for log probabilities, Top for alternatives.
	Logprobs bool `json:"logprobs,omitempty"`
	Top      int  `json:"top_logprobs,omitempty"`
	// NoDraft asks for one token per pass over the route.
	NoDraft bool `json:"-"`
	// OnTelemetry is called for each snapshot, from the calling goroutine.
	OnTelemetry func(protocol.Telemetry) `json:"-"`
}

// Answer is what came back.
type Answer struct {
	Text      string
	Finish    string
	Deltas    int // content deltas
	Session   protocol.SessionID
	Telemetry protocol.Telemetry // the last snapshot
	// Logprobs are the entries of all deltas, as the server sent them.
	Logprobs []json.RawMessage
}

type chunk struct {
	Choices []struct {
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
		Logprobs     struct {
			Content []json.RawMessage `json:"content"`
		} `json:"logprobs"`
	} `json:"choices"`
	Error *wireError `json:"error"`
}

type wireError struct {
	Message string            `json:"message"`
	Code    protocol.Code     `json:"code"`
	Hop     *int              `json:"hop"`
	Phase   protocol.Phase    `json:"phase"`
	Param   string            `json:"param"`
	Detail  map[string]string `json:"detail"`
}

func (e *wireError) err() error {
	if e.Code == "" { // a server of others
		e.Code = protocol.CodeUnavailable
	}
	return &protocol.Error{Code: e.Code, Message: e.Message, Hop: e.Hop, Phase: e.Phase, Param: e.Param, Detail: e.Detail}
}

// Chat streams an answer; onDelta is called for each piece of text, from the
// calling goroutine. An answer that does not end in order is an error, never
// a short text.
func (c *Client) Chat(ctx context.Context, r ChatRequest, onDelta func(string)) (*Answer, error) {
	ext := map[string]any{"telemetry": true}
	if r.NoDraft {
		ext["draft"] = "off"
	}
	return c.Stream(ctx, struct {
		ChatRequest
		Stream bool           `json:"stream"`
		Neuron map[string]any `json:"neuron"`
	}{r, true, ext}, r.OnTelemetry, onDelta)
}

// Stream is Chat for a request with fields of the caller's own, which has to ask
// for a stream.
func (c *Client) Stream(ctx context.Context, request any, onTelemetry func(protocol.Telemetry), onDelta func(string)) (*Answer, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	resp, err := c.do(ctx, http.MethodPost, "/chat/completions", body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	a := &Answer{Session: protocol.SessionID(resp.Header.Get("X-Neuron-Session"))}
	if err := a.read(resp.Body, onTelemetry, onDelta); err != nil {
		return nil, err
	}
	return a, nil
}

// maxLine bounds one line of the event stream, in bytes.
const maxLine = 4 << 20

// read consumes the event stream up to [DONE].
func (a *Answer) read(body io.Reader, onTelemetry func(protocol.Telemetry), onDelta func(string)) error {
	var text strings.Builder
	event := ""
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Text()
		// The space behind the colon is optional (WHATWG HTML, section 9.2.6).
		data, isData := strings.CutPrefix(line, "data:")
		data = strings.TrimPrefix(data, " ")
		name, isEvent := strings.CutPrefix(line, "event:")
		switch {
		case isEvent:
			event = strings.TrimPrefix(name, " ")
		case line == "":
			event = ""
		case !isData:
		case data == "[DONE]":
			if a.Finish == "" {
				return brokeOff(errors.New("it has no finish reason"))
			}
			a.Text = text.String()
			return nil
		case event == "neuron.telemetry":
			if err := json.Unmarshal([]byte(data), &a.Telemetry); err != nil {
				return malformed(err)
			}
			a.Session = a.Telemetry.Session
			if onTelemetry != nil {
				onTelemetry(a.Telemetry)
			}
		default:
			var ch chunk
			if err := json.Unmarshal([]byte(data), &ch); err != nil {
				return malformed(err)
			}
			if ch.Error != nil {
				return ch.Error.err()
			}
			for _, x := range ch.Choices {
				a.Logprobs = append(a.Logprobs, x.Logprobs.Content...)
				if x.Delta.Content != "" {
					a.Deltas++
					text.WriteString(x.Delta.Content)
					if onDelta != nil {
						onDelta(x.Delta.Content)
					}
				}
				if x.FinishReason != "" {
					a.Finish = x.FinishReason
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return brokeOff(err)
	}
	return brokeOff(io.ErrUnexpectedEOF)
}

func brokeOff(err error) error {
	return protocol.Errorf(protocol.CodeAnswerBroken, "the answer broke off: %w", err)
}

func malformed(err error) error {
	return protocol.Errorf(protocol.CodeUnavailable, "the API's answer is malformed: %w", err)
}

// JSON sends a request and decodes the answer into out.
func (c *Client) JSON(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return nil, fmt.Errorf("encode request: %w", err)
		}
	}
	resp, err := c.do(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, 64<<20)).Decode(out); err != nil {
		return nil, malformed(err)
	}
	return resp.Header, nil
}

// do sends one request; a status of 400 or more is the server's error.
func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "address of the API: %w", err)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the API does not answer: %w", err)
	}
	if resp.StatusCode < http.StatusBadRequest {
		return resp, nil
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	var out chunk
	if err = errors.Join(err, json.Unmarshal(raw, &out)); err != nil || out.Error == nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the API answered %s", resp.Status)
	}
	return nil, out.Error.err()
}
