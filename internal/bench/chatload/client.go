// Package chatload puts clients that stream on a gateway's OpenAI API and says
// what they saw: when each piece of their answers came.
//
// It speaks plain HTTP and knows nothing of routes, nodes or models, so that
// any server with that API can be measured in the same way. internal/bench and
// its parts import it.
package chatload

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
	"time"
)

// Client asks one model of one server. Safe for concurrent use.
type Client struct {
	URL, Key string // URL ends in /v1
	Model    string
}

// Answer is a streamed answer as its client saw it.
type Answer struct {
	Began  time.Time
	Pieces []time.Time // when each piece of text came, in order
	Tokens int         // by the server's count
}

// First is the time to the first piece of text, 0 without one.
func (a *Answer) First() time.Duration {
	if len(a.Pieces) == 0 {
		return 0
	}
	return a.Pieces[0].Sub(a.Began)
}

// PerPiece is the mean time between two pieces; there must be two.
func (a *Answer) PerPiece() time.Duration {
	n := len(a.Pieces)
	return a.Pieces[n-1].Sub(a.Pieces[0]) / time.Duration(n-1)
}

// Gaps are the times between neighbouring pieces.
func (a *Answer) Gaps() []time.Duration {
	var out []time.Duration
	for i := 1; i < len(a.Pieces); i++ {
		out = append(out, a.Pieces[i].Sub(a.Pieces[i-1]))
	}
	return out
}

// event is what the answer's chunks are read for.
type event struct {
	Choices []struct {
		Text   string  `json:"text"`
		Finish *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		Completion int `json:"completion_tokens"`
	} `json:"usage"`
	Error *struct {
		Message string `json:"message"`
		Code    string `json:"code"`
	} `json:"error"`
}

// Stream asks for a greedy answer of exactly that many tokens, without guesses
// and with its whole prompt computed, and reads it to its end; first, if not nil, is called at its first piece. When
// ctx ends in the middle the answer so far comes with the error.
func (c *Client) Stream(ctx context.Context, prompt []int32, tokens int, first func()) (*Answer, error) {
	body, err := json.Marshal(map[string]any{
		"model": c.Model, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "ignore_eos": true,
		"stream": true, "stream_options": map[string]bool{"include_usage": true}, "neuron": map[string]string{"draft": "off", "prefix": "off"},
	})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	a := &Answer{Began: time.Now()}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/completions", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+c.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, fmt.Errorf("completion: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<12)) // what it says is all that is wanted
		return a, fmt.Errorf("completion: %s: %s", resp.Status, raw)
	}
	return a, a.read(resp.Body, first)
}

// read takes the events in; an answer without its end is an error.
func (a *Answer) read(body io.Reader, first func()) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	finish := ""
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		now := time.Now()
		if data == "[DONE]" {
			if finish != "length" {
				return fmt.Errorf("completion: it ended with %q", finish)
			}
			return nil
		}
		var e event
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			return fmt.Errorf("completion: %w", err)
		}
		switch {
		case e.Error != nil:
			return fmt.Errorf("completion: %s: %s", e.Error.Code, e.Error.Message)
		case e.Usage != nil:
			a.Tokens = e.Usage.Completion
		}
		for _, x := range e.Choices {
			if x.Text != "" {
				a.Pieces = append(a.Pieces, now)
				if len(a.Pieces) == 1 && first != nil {
					first()
				}
			}
			if x.Finish != nil {
				finish = *x.Finish
			}
		}
	}
	return errors.Join(errors.New("completion: it broke off"), lines.Err())
}
