package synth

import (
	"fmt"
	"strings"

	"neuron/llama/gguf"
)

// The tokenizer is a byte-level BPE: 256 tokens of one byte in byte order (id = byte), the
// products of a few merges, then the control tokens, then filler tokens that no text
// produces but that a random model emits.
//
// llama.cpp's numbers for token types.
const (
	tokenNormal  = 1
	tokenControl = 3
)

// Control tokens and their places after the merges.
var controls = []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}

// merges make ordinary English a little shorter than its bytes. Ġ stands for a space.
var merges = []string{
	"Ġ t", "h e", "Ġ a", "i n", "r e", "Ġt he", "o n", "Ġ s", "e r", "a n", "Ġ w", "o r", "e n", "Ġ o", "a t", "e s",
}

// Ids of the control tokens, the same for every shape.
const (
	TokenEndOfText = 256 + 16 // <|endoftext|>, also the beginning-of-sequence token
	TokenIMStart   = TokenEndOfText + 1
	TokenIMEnd     = TokenEndOfText + 2 // end of a turn and of generation

	// MinVocab is the size of the vocabulary without filler tokens.
	MinVocab = TokenEndOfText + 3
)

// chatTemplate renders ChatML.
const chatTemplate = `{%- for m in messages -%}
{{- '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\n' -}}{%- endif -%}`

func tokenizer(s Shape) []gguf.KV {
	// Published Qwen models begin a text without a special token, Llama and Gemma with one.
	return Tokenizer(s.Vocab, s.Family == FamilyLlama || s.Family == FamilyGemma3)
}

// Tokenizer gives the entries of a tokenizer of at least MinVocab tokens; bos says
// whether a text begins with a special token.
func Tokenizer(vocab int, bos bool) []gguf.KV {
	tokens := make([]string, 0, vocab)
	types := make([]int32, 0, vocab)
	add := func(text string, typ int32) {
		tokens = append(tokens, text)
		types = append(types, typ)
	}
	for b := range 256 {
		add(string(byteRune(byte(b))), tokenNormal)
	}
	for _, m := range merges {
		add(strings.ReplaceAll(m, " ", ""), tokenNormal)
	}
	for _, c := range controls {
		add(c, tokenControl)
	}
	for len(tokens) < vocab {
		add(fmt.Sprintf("Ġ#%d", len(tokens)), tokenNormal)
	}
	return []gguf.KV{
		{Key: "tokenizer.ggml.model", Value: gguf.String("gpt2")},
		{Key: "tokenizer.ggml.pre", Value: gguf.String("gpt-2")},
		{Key: "tokenizer.ggml.tokens", Value: gguf.Strings(tokens)},
		{Key: "tokenizer.ggml.token_type", Value: gguf.I32s(types)},
		{Key: "tokenizer.ggml.merges", Value: gguf.Strings(merges)},
		{Key: "tokenizer.ggml.bos_token_id", Value: gguf.U32(TokenEndOfText)},
		{Key: "tokenizer.ggml.eos_token_id", Value: gguf.U32(TokenIMEnd)},
		// Stated, because llama.cpp otherwise guesses by name and may pick <|endoftext|>.
		{Key: "tokenizer.ggml.eot_token_id", Value: gguf.U32(TokenIMEnd)},
		{Key: "tokenizer.ggml.padding_token_id", Value: gguf.U32(TokenEndOfText)},
		{Key: "tokenizer.ggml.add_bos_token", Value: gguf.Bool(bos)},
		{Key: "tokenizer.chat_template", Value: gguf.String(chatTemplate)},
	}
}

// byteRune is the printable character that stands for a byte in the vocabulary of a
// byte-level BPE: the byte's own character where Latin-1 prints it, otherwise the next
// free one from U+0100 on (the scheme of GPT-2).
func byteRune(b byte) rune {
	if printable(b) {
		return rune(b)
	}
	r := rune(0x100)
	for c := range b {
		if !printable(c) {
			r++
		}
	}
	return r
}

func printable(b byte) bool {
	return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
}
