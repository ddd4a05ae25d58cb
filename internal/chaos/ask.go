package chaos

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

	"neuron/engine/cli/apiclient"
	"neuron/engine/protocol"
)

// Request is one greedy request of either endpoint. Exactly one of IDs, Prompt
// and Chat is set.
type Request struct {
	Model     string
	IDs       []int32
	Prompt    string
	Chat      []apiclient.Message
	MaxTokens int
	Stop      string
	Stream    bool
	IgnoreEOS bool
}

// Answer is a complete answer. Tokens is what the gateway counted.
type Answer struct {
	Text, Finish string
	Tokens       int
}

// SilentError is the one thing that must never come: an answer that ends, but
// neither whole nor with a coded error.
type SilentError struct{ What string }

func (e *SilentError) Error() string { return "the answer ended without a reason: " + e.What }

// Asker sends requests to one gateway, each on a connection of its own, so
// that a client that leaves is seen to leave.
type Asker struct{ URL, Key string }

type wireAnswer struct {
	Choices []struct {
		Text    string `json:"text"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Delta struct {
			Content string `json:"content"`
		} `json:"delta"`
		Finish string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Tokens int `json:"completion_tokens"`
	} `json:"usage"`
	Error *struct {
		Message string         `json:"message"`
		Code    protocol.Code  `json:"code"`
		Hop     *int           `json:"hop"`
		Phase   protocol.Phase `json:"phase"`
	} `json:"error"`
}

func (w *wireAnswer) add(a *Answer) error {
	if w.Error != nil {
		if w.Error.Code == "" {
			return &SilentError{"an error without a code: " + w.Error.Message}
		}
		return &protocol.Error{Code: w.Error.Code, Message: w.Error.Message, Hop: w.Error.Hop, Phase: w.Error.Phase}
	}
	for _, c := range w.Choices {
		a.Text += c.Text + c.Message.Content + c.Delta.Content
		if c.Finish != "" {
			a.Finish = c.Finish
		}
	}
	if w.Usage != nil {
		a.Tokens = w.Usage.Tokens
	}
	return nil
}

// Ask sends r and reads the answer to its end. Errors are a *protocol.Error
// that the gateway sent, the context's when the caller left, or a *SilentError.
func (k Asker) Ask(ctx context.Context, r Request) (*Answer, error) {
	path := "/completions"
	body := map[string]any{
		"model": r.Model, "max_tokens": r.MaxTokens, "temperature": 0, "stream": r.Stream,
		// A prompt that was kept is over in no time: nothing could break in it.
		"neuron": map[string]any{"prefix": "off"},
	}
	switch {
	case r.Chat != nil:
		path, body["messages"] = "/chat/completions", r.Chat
	case r.IDs != nil:
		body["prompt"] = r.IDs
	default:
		body["prompt"] = r.Prompt
	}
	if r.Stream {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	if r.Stop != "" {
		body["stop"] = r.Stop
	}
	if r.IgnoreEOS {
		body["ignore_eos"] = true
	}
	raw, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, k.URL+path, bytes.NewReader(raw))
	if err != nil {
		return nil, fmt.Errorf("make request: %w", err)
	}
	req.Close = true
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+k.Key)
	a, err := k.read(req, r.Stream)
	var coded *protocol.Error
	if err != nil && ctx.Err() != nil && !errors.As(err, &coded) {
		return nil, context.Cause(ctx)
	}
	return a, err
}

func (k Asker) read(req *http.Request, stream bool) (*Answer, error) {
	t := &http.Transport{}
	defer t.CloseIdleConnections()
	resp, err := t.RoundTrip(req)
	if err != nil {
		return nil, &SilentError{err.Error()}
	}
	defer resp.Body.Close()
	a := &Answer{}
	if stream && resp.StatusCode == http.StatusOK {
		err = a.stream(resp.Body)
	} else {
		var w wireAnswer
		if err = json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&w); err != nil {
			return nil, &SilentError{fmt.Sprintf("%s: %v", resp.Status, err)}
		}
		err = w.add(a)
	}
	switch {
	case err != nil:
		return nil, err
	case resp.StatusCode != http.StatusOK:
		return nil, &SilentError{resp.Status + " without an error"}
	case a.Finish == "":
		return nil, &SilentError{"no finish reason"}
	}
	return a, nil
}

func (a *Answer) stream(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			return nil
		default:
			var w wireAnswer
			if err := json.Unmarshal([]byte(data), &w); err != nil {
				return &SilentError{err.Error()}
			}
			if err := w.add(a); err != nil {
				return err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return &SilentError{err.Error()}
	}
	return &SilentError{"the stream ended before [DONE]"}
}
