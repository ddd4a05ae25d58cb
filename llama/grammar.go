package llama

import (
	"strings"
	"unsafe"
)

// Bounds on grammars from outside: libllama parses them recursively.
const (
	maxGrammar      = 1 << 20 // bytes
	maxGrammarDepth = 64      // nested parentheses
	maxGrammarCount = 4096    // of one repetition
)

// Grammar allows only text of the GBNF grammar from rule root on. Put it first in
// the chain. Code grammar when it does not parse.
func Grammar(v Vocab, gbnf, root string) (Sampler, error) {
	const op = "grammar"
	if err := checkGrammar(op, v, gbnf, root); err != nil {
		return 0, err
	}
	mark := logMark()
	h := cInitGrammar(uintptr(v), gbnf, root)
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
func GrammarLazyPatterns(v Vocab, gbnf, root string, patterns []string, tokens []int32) (Sampler, error) {
	const op = "lazy grammar"
	if err := checkGrammar(op, v, gbnf, root); err != nil {
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
		h = cInitGrammarLazy(uintptr(v), gbnf, root, p, uint64(len(patterns)), unsafe.SliceData(tokens), uint64(len(tokens)))
	})
	if h == 0 {
		return 0, fail(CodeGrammar, op, logSince(mark))
	}
	return registerSampler(h, samplerState{grammar: true, nVocab: v.N()}), nil
}

func checkGrammar(op string, v Vocab, gbnf, root string) error {
	if err := v.check(op); err != nil {
		return err
	}
	if gbnf == "" || len(gbnf) > maxGrammar || strings.IndexByte(gbnf, 0) >= 0 || strings.IndexByte(root, 0) >= 0 {
		return fail(CodeGrammar, op, "empty, too long or with a zero byte")
	}
	rules, depth, count := scanGrammar(gbnf)
	if count > maxGrammarCount {
		return fail(CodeGrammar, op, "too many repetitions")
	}
	if depth > maxGrammarDepth {
		return fail(CodeGrammar, op, "parentheses are nested too deep")
	}
	// libllama insists on a rule named root and looks the start rule up without a check.
	if !rules["root"] || !rules[root] {
		return fail(CodeGrammar, op, "no rule "+root+" or no rule root")
	}
	return nil
}

// scanGrammar finds the names of the rules that are defined, outside of literals,
// character classes and comments, the deepest nesting of parentheses and the
// largest count of a repetition.
func scanGrammar(s string) (rules map[string]bool, depth, count int) {
	rules = map[string]bool{}
	level := 0
	for i := 0; i < len(s); {
		switch c := s[i]; {
		case c == '"':
			i = skipTo(s, i+1, '"')
		case c == '[':
			i = skipTo(s, i+1, ']')
		case c == '#':
			for i < len(s) && s[i] != '\n' && s[i] != '\r' {
				i++
			}
		case c == '(':
			level++
			depth = max(depth, level)
			i++
		case c == ')':
			level--
			i++
		case c == '{':
			for i++; i < len(s) && s[i] != '}' && s[i] != '\n'; {
				n := 0
				for i < len(s) && s[i] >= '0' && s[i] <= '9' {
					n = min(10*n+int(s[i]-'0'), maxGrammarCount+1)
					i++
				}
				count = max(count, n)
				if i < len(s) && s[i] != '}' {
					i++
				}
			}
		case isWord(c):
			start := i
			for i < len(s) && isWord(s[i]) {
				i++
			}
			rest := strings.TrimLeft(s[i:], " \t")
			if strings.HasPrefix(rest, "::=") {
				rules[s[start:i]] = true
			}
		default:
			i++
		}
	}
	return rules, depth, count
}

func skipTo(s string, i int, end byte) int {
	for i < len(s) && s[i] != end {
		if s[i] == '\\' {
			i++
		}
		i++
	}
	return i + 1
}

func isWord(c byte) bool {
	return c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}
