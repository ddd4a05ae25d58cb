package llama

import (
	"strings"
	"unsafe"

	"neuron/llama/gbnf"
)

// maxGrammar bounds a grammar, in bytes.
const maxGrammar = 1 << 20

// Grammar allows only text of the GBNF grammar from rule root on. Put it first in
// the chain. Code grammar when it does not parse.
func Grammar(v Vocab, src, root string) (Sampler, error) {
	const op = "grammar"
	if err := checkGrammar(op, v, src, root); err != nil {
		return 0, err
	}
	mark := logMark()
	h := cInitGrammar(uintptr(v), src, root)
	if h == 0 {
		return 0, fail(CodeGrammar, op, logSince(mark))
	}
	return registerSampler(h, samplerState{grammar: true, nVocab: v.N()}), nil
}

// GrammarLazyPatterns is a grammar that begins to work when the text so far
// matches one of the patterns (ECMAScript regular expressions; the first group, if
// any, is where the grammar starts) or one of the tokens was accepted. The grammar
// must allow what triggers it: libllama ends the process otherwise, and the
// patterns are compiled without a catch. So patterns and grammar come from this
// program, never from a client.
func GrammarLazyPatterns(v Vocab, src, root string, patterns []string, tokens []int32) (Sampler, error) {
	const op = "lazy grammar"
	if err := checkGrammar(op, v, src, root); err != nil {
		return 0, err
	}
	if len(patterns)+len(tokens) == 0 || len(patterns) > 64 || len(tokens) > 1024 {
		return 0, fail(CodeSamplerInvalid, op, "number of triggers out of range")
	}
	if err := v.check(op, tokens...); err != nil {
		return 0, err
	}
	for _, p := range patterns {
		if p == "" || len(p) > 4096 || strings.IndexByte(p, 0) >= 0 {
			return 0, fail(CodeSamplerInvalid, op, "pattern is empty or too long")
		}
	}
	mark := logMark()
	var h uintptr
	withStrings(patterns, func(p unsafe.Pointer) {
		h = cInitGrammarLazy(uintptr(v), src, root, p, uint64(len(patterns)), unsafe.SliceData(tokens), uint64(len(tokens)))
	})
	if h == 0 {
		return 0, fail(CodeGrammar, op, logSince(mark))
	}
	return registerSampler(h, samplerState{grammar: true, nVocab: v.N()}), nil
}

func checkGrammar(op string, v Vocab, src, root string) error {
	if err := v.check(op); err != nil {
		return err
	}
	if src == "" || len(src) > maxGrammar || strings.IndexByte(src, 0) >= 0 || strings.IndexByte(root, 0) >= 0 {
		return fail(CodeGrammar, op, "empty, too long or with a zero byte")
	}
	if err := gbnf.Check(src, root); err != nil {
		return fail(CodeGrammar, op, err.Error())
	}
	return nil
}
