package gateway

import (
	"encoding/json"

	"neuron/engine/gateway/logprob"
	"neuron/engine/protocol"
)

// The answer objects of both endpoints, whole and in chunks. Field names and
// nulls follow OpenAI's published schema and recorded streams.

type chunk struct {
	ID      string           `json:"id"`
	Object  string           `json:"object"`
	Created int64            `json:"created"`
	Model   string           `json:"model"`
	Choices []any            `json:"choices"`
	Usage   *json.RawMessage `json:"usage,omitempty"`
	Neuron  *neuronPart      `json:"neuron,omitempty"`
}

type chatChunkChoice struct {
	Index    int                    `json:"index"`
	Delta    chatDelta              `json:"delta"`
	Logprobs *logprob.Chat          `json:"logprobs"`
	Finish   *protocol.FinishReason `json:"finish_reason"`
}

type chatDelta struct {
	Role    string           `json:"role,omitempty"`
	Content *json.RawMessage `json:"content,omitempty"` // a string, or null at the beginning of calls
	Thought string           `json:"reasoning_content,omitempty"`
	Calls   []toolCallDelta  `json:"tool_calls,omitempty"`
}

// toolCallDelta is a piece of a call; ID, Type and the name stand in its first.
type toolCallDelta struct {
	Index    int               `json:"index"`
	ID       string            `json:"id,omitempty"`
	Type     string            `json:"type,omitempty"`
	Function toolFunctionDelta `json:"function"`
}

type toolFunctionDelta struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

type chatChoice struct {
	Index    int                   `json:"index"`
	Message  chatMessage           `json:"message"`
	Logprobs *logprob.Chat         `json:"logprobs"`
	Finish   protocol.FinishReason `json:"finish_reason"`
}

type chatMessage struct {
	Role    string     `json:"role"`
	Content *string    `json:"content"` // null for calls alone
	Refusal *string    `json:"refusal"`
	Thought string     `json:"reasoning_content,omitempty"` // of models that tell it apart
	Calls   []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function toolFunction `json:"function"`
}

type toolFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type textChoice struct {
	Index    int                    `json:"index"`
	Text     string                 `json:"text"`
	Logprobs *logprob.Text          `json:"logprobs"`
	Finish   *protocol.FinishReason `json:"finish_reason"`
}

// neuronPart is our addition to an answer that asked for telemetry: the last
// session with its final snapshot, and all sessions when there were several.
type neuronPart struct {
	Session   protocol.SessionID   `json:"session"`
	Telemetry *protocol.Telemetry  `json:"telemetry,omitempty"`
	Sessions  []protocol.Telemetry `json:"sessions,omitempty"`
}

// isChat tells the two endpoints apart by the request id.
func (j *job) isChat() bool { return j.id[:4] == "chat" }

// chunk is an empty object of this job.
func (j *job) chunk(object string) chunk {
	return chunk{ID: j.id, Object: object, Created: j.created, Model: j.name, Choices: []any{}}
}

// rawString is a JSON string, or null.
func rawString(s *string) *json.RawMessage {
	raw, _ := json.Marshal(s) // cannot fail
	return (*json.RawMessage)(&raw)
}

// usageJSON encodes u; it cannot fail.
func usageJSON(u usage) *json.RawMessage {
	raw, _ := json.Marshal(u)
	return (*json.RawMessage)(&raw)
}
