// Package chattmpl runs a model's own Jinja chat template over a conversation.
//
// The language is github.com/ardanlabs/jinja; docs/decisions/0005-chat-templates.md
// says why, with the figures and the gaps: all 19 real templates run, and of 185
// cases 167 give the expected text.
//
// Templates come with models and are treated as hostile: size, nesting, loop
// steps, recursion, time and output are bounded (see guard.go), a panic inside
// the language is an error, and every failure is protocol.CodeTemplateInvalid.
// One thing cannot be bounded from outside the language: what a single
// expression takes in time and memory. So an engine renders in the process that
// holds the model's tokenizer, and ends that (engine/stage/worker).
//
// The package knows text only: no tokens, no models, no HTTP. engine/gateway
// imports it for its types, engine/stage and stage/worker to render.
package chattmpl

import "time"

// Limits of one template and one rendering.
const (
	// MaxSource is the largest template, in bytes; the largest real one that
	// we know has 17 KB.
	MaxSource = 256 << 10
	// MaxOutput is the largest rendered prompt, in bytes.
	MaxOutput = 16 << 20
	// MaxTime bounds one rendering.
	MaxTime = 2 * time.Second
	// MaxSteps bounds loop iterations and macro calls of one rendering.
	MaxSteps = 1 << 20
	// MaxDepth bounds nested blocks, nested brackets and macro recursion.
	MaxDepth = 100
	// maxRange is the longest list that range() makes.
	maxRange = 1 << 16
)

// ChatML is the template of models that bring none: the format with
// <|im_start|> and <|im_end|> that most open models were trained on.
const ChatML = `{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\n' -}}
{%- endif -%}`
