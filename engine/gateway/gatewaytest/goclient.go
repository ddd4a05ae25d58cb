package gatewaytest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/shared"

	"neuron/engine/protocol"
)

// GoClient runs OpenAI's own Go client against the API.
func GoClient(t *testing.T, a API) {
	client := openai.NewClient(option.WithBaseURL(a.URL+"/"), option.WithAPIKey(a.Key), option.WithMaxRetries(0))
	ask := func() openai.ChatCompletionNewParams {
		return openai.ChatCompletionNewParams{Model: a.Model, Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(Question)},
			Temperature: openai.Float(0), MaxCompletionTokens: openai.Int(48), Seed: openai.Int(1)}
	}
	gather := func(t *testing.T, p openai.ChatCompletionNewParams) openai.ChatCompletionAccumulator {
		t.Helper()
		stream := client.Chat.Completions.NewStreaming(t.Context(), p)
		defer stream.Close()
		acc := openai.ChatCompletionAccumulator{}
		for stream.Next() {
			if !acc.AddChunk(stream.Current()) {
				t.Errorf("a chunk does not fit: %s", stream.Current().RawJSON())
			}
		}
		if err := stream.Err(); err != nil {
			t.Fatal(err)
		}
		return acc
	}
	whole, err := client.Chat.Completions.New(t.Context(), ask())
	if err != nil {
		t.Fatal(err)
	}
	t.Run("models", func(t *testing.T) {
		page, err := client.Models.List(t.Context())
		if err != nil || len(page.Data) == 0 || page.Data[0].ID != a.Model {
			t.Errorf("%+v, %v", page, err)
		}
		if m, err := client.Models.Get(t.Context(), a.Model); err != nil || m.ID != a.Model {
			t.Errorf("%+v, %v", m, err)
		}
	})
	t.Run("streaming", func(t *testing.T) {
		p := ask()
		p.StreamOptions.IncludeUsage = openai.Bool(true)
		acc := gather(t, p)
		if acc.Choices[0].Message.Content != whole.Choices[0].Message.Content || acc.Usage.TotalTokens != whole.Usage.TotalTokens || acc.Choices[0].FinishReason != whole.Choices[0].FinishReason {
			t.Errorf("%+v", acc.ChatCompletion)
		}
	})
	t.Run("n and logprobs", func(t *testing.T) {
		p := ask()
		p.N, p.Logprobs, p.TopLogprobs = openai.Int(2), openai.Bool(true), openai.Int(2)
		for _, c := range [][]openai.ChatCompletionChoice{must(client.Chat.Completions.New(t.Context(), p)).Choices, gather(t, p).Choices} {
			if len(c) != 2 {
				t.Fatalf("%d choices", len(c))
			}
			for _, ch := range c {
				var b strings.Builder // a token may be a part of a character
				for _, l := range ch.Logprobs.Content {
					for _, c := range l.Bytes {
						b.WriteByte(byte(c))
					}
					if len(l.TopLogprobs) != 2 {
						t.Errorf("%+v", l)
					}
				}
				if ch.Message.Content != whole.Choices[0].Message.Content || b.String() != ch.Message.Content {
					t.Errorf("%q of tokens %q", ch.Message.Content, b.String())
				}
			}
		}
	})
	t.Run("tools", func(t *testing.T) {
		p := ask()
		p.MaxCompletionTokens = openai.Int(200)
		p.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "get_weather", Description: openai.String("The weather of a city"), Strict: openai.Bool(true),
			Parameters: shared.FunctionParameters{"type": "object", "additionalProperties": false, "required": []string{"city", "days"},
				"properties": map[string]any{"city": map[string]any{"type": "string", "maxLength": 12}, "days": map[string]any{"type": "integer", "minimum": 1, "maximum": 5}}},
		})}
		p.ParallelToolCalls = openai.Bool(false)
		p.ToolChoice = openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: openai.String("required")}
		for _, c := range [][]openai.ChatCompletionChoice{must(client.Chat.Completions.New(t.Context(), p)).Choices, gather(t, p).Choices} {
			if len(c) != 1 || len(c[0].Message.ToolCalls) != 1 || c[0].Message.ToolCalls[0].Function.Name != "get_weather" || c[0].FinishReason != "tool_calls" {
				t.Fatalf("%+v", c)
			}
			readForecast(t, c[0].Message.ToolCalls[0].Function.Arguments)
		}
		// The next turn: the answer of the tool goes back.
		first := must(client.Chat.Completions.New(t.Context(), p)).Choices[0].Message
		p.Messages = append(p.Messages, first.ToParam(), openai.ToolMessage("rain", first.ToolCalls[0].ID))
		p.ToolChoice, p.Tools, p.ParallelToolCalls = openai.ChatCompletionToolChoiceOptionUnionParam{}, p.Tools[:1], openai.Opt(false)
		if _, err := client.Chat.Completions.New(t.Context(), p); err != nil {
			t.Error(err)
		}
	})
	t.Run("JSON schema", func(t *testing.T) {
		p := ask()
		p.MaxCompletionTokens = openai.Int(200)
		p.ResponseFormat = openai.ChatCompletionNewParamsResponseFormatUnion{OfJSONSchema: &shared.ResponseFormatJSONSchemaParam{
			JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{Name: "forecast", Strict: openai.Bool(true), Schema: map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"city", "days"},
				"properties": map[string]any{"city": map[string]any{"type": "string", "maxLength": 12}, "days": map[string]any{"type": "integer", "minimum": 1, "maximum": 5}}}}}}
		readForecast(t, must(client.Chat.Completions.New(t.Context(), p)).Choices[0].Message.Content)
		readForecast(t, gather(t, p).Choices[0].Message.Content)
	})
	t.Run("errors", func(t *testing.T) {
		p := ask()
		p.Model = "none"
		_, err := client.Chat.Completions.New(t.Context(), p)
		var e *openai.Error
		if !errors.As(err, &e) || e.StatusCode != 404 || e.Code != string(protocol.CodeModelUnknown) || e.Param != "model" {
			t.Errorf("%v", err)
		}
		_, err = client.Embeddings.New(t.Context(), openai.EmbeddingNewParams{Model: a.Model, Input: openai.EmbeddingNewParamsInputUnion{OfString: openai.String("x")}})
		if !errors.As(err, &e) || e.Code != string(protocol.CodeUnsupported) {
			t.Errorf("%v", err)
		}
	})
	t.Run("abort", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		p := ask()
		p.MaxCompletionTokens = openai.Int(1500)
		p.SetExtraFields(map[string]any{"ignore_eos": true})
		stream := client.Chat.Completions.NewStreaming(ctx, p)
		defer stream.Close()
		for range 3 {
			if !stream.Next() {
				t.Fatal(stream.Err())
			}
		}
		cancel()
		for stream.Next() {
		}
		if a.Real && stream.Err() == nil { // the fake may be done already
			t.Error("an aborted stream ends in order")
		}
	})
}

// must is for requests whose failure ends the test in any case.
func must(c *openai.ChatCompletion, err error) *openai.ChatCompletion {
	if err != nil {
		panic(err)
	}
	return c
}
