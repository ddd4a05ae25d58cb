// Package gbnf reads grammars in llama.cpp's GBNF and says whether libllama can
// use them: as strictly as libllama does or more so, and with limits on what they
// cost. libllama itself reads without bounds: {5,2} never ends, a rule whose
// beginning can be read in very many ways costs that many stacks at once, and each
// of them is gone through for each token of the vocabulary.
//
// Grammars come from clients. The package imports the standard library alone;
// package llama imports it.
package gbnf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bounds on grammars from outside.
const (
	maxDepth = 64      // nested parentheses
	maxCount = 1999    // of one repetition; libllama takes a larger upper bound for none
	maxRules = 8192    // written ones
	maxSyms  = 1 << 17 // symbols and copies by repetition, in all rules
	// maxWays is in how many ways the beginning of a rule may be read.
	// Measured with a vocabulary of 2,048: 100 ways cost up to 75 ms a token,
	// 200 ways 0.8 s, 400 ways 10 s.
	maxWays = 160
)

// symbol is a symbol of a sequence: a rule by its number, or a terminal.
type symbol struct {
	rule   int // -1 for a terminal
	copies int // at least 1
	maybe  bool
}

type rule struct {
	line    int // where it is first met
	defined bool
	alts    [][]symbol
}

// reader reads one grammar.
type reader struct {
	s     string
	i     int
	depth int
	syms  int
	rules []rule
	index map[string]int
}

// Check parses a grammar and checks that it can be used from rule root on; the
// error is a sentence that does not quote the grammar.
func Check(s, root string) error {
	g := &reader{s: s, index: map[string]int{}}
	for g.space(true); g.i < len(g.s); g.space(true) {
		if err := g.definition(); err != nil {
			return err
		}
	}
	for _, r := range g.rules {
		if !r.defined {
			return fmt.Errorf("a rule that line %d names is not defined", r.line)
		}
	}
	// libllama insists on a rule named root and looks the start rule up without
	// a check.
	for _, name := range []string{"root", root} {
		if _, ok := g.index[name]; !ok {
			return fmt.Errorf("there is no rule named %.20s", name)
		}
	}
	return g.measure()
}

// space skips blanks and comments, and line ends if lines.
func (g *reader) space(lines bool) {
	for g.i < len(g.s) {
		switch c := g.s[g.i]; {
		case c == ' ' || c == '\t' || lines && (c == '\n' || c == '\r'):
			g.i++
		case c == '#':
			for g.i < len(g.s) && g.s[g.i] != '\n' && g.s[g.i] != '\r' {
				g.i++
			}
		default:
			return
		}
	}
}

func isWord(c byte) bool {
	return c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (g *reader) word() string {
	from := g.i
	for g.i < len(g.s) && isWord(g.s[g.i]) {
		g.i++
	}
	return g.s[from:g.i]
}

// bad is an error that says where reading stopped. Errors never quote the
// grammar, which may tell what a client asks.
func (g *reader) bad(what string) error {
	before := g.s[:min(g.i, len(g.s))]
	return fmt.Errorf("%s at line %d, byte %d", what, g.line(), len(before)-strings.LastIndexByte(before, '\n'))
}

func (g *reader) line() int { return 1 + strings.Count(g.s[:min(g.i, len(g.s))], "\n") }

// rule is the number of a name.
func (g *reader) rule(name string) (int, error) {
	if n, ok := g.index[name]; ok {
		return n, nil
	}
	n, err := g.add()
	g.index[name] = n
	return n, err
}

func (g *reader) add() (int, error) {
	if len(g.rules) >= 4*maxRules || len(g.index) > maxRules {
		return 0, fmt.Errorf("there are more than %d rules", maxRules)
	}
	g.rules = append(g.rules, rule{line: g.line()})
	return len(g.rules) - 1, nil
}

func (g *reader) definition() error {
	name := g.word()
	if name == "" {
		return g.bad("a rule's name is expected")
	}
	g.space(false)
	if !strings.HasPrefix(g.s[g.i:], "::=") {
		return g.bad("::= is expected")
	}
	g.i += 3
	g.space(true)
	n, err := g.rule(name)
	if err != nil {
		return err
	}
	if g.rules[n].defined {
		return g.bad("a rule is defined twice")
	}
	alts, err := g.alternates(false)
	if err != nil {
		return err
	}
	g.rules[n].alts, g.rules[n].defined = alts, true
	if g.i < len(g.s) && g.s[g.i] != '\n' && g.s[g.i] != '\r' {
		return g.bad("the end of the line is expected")
	}
	return nil
}

func (g *reader) alternates(nested bool) ([][]symbol, error) {
	var alts [][]symbol
	for {
		seq, err := g.sequence(nested)
		if err != nil {
			return nil, err
		}
		alts = append(alts, seq)
		if g.i >= len(g.s) || g.s[g.i] != '|' {
			return alts, nil
		}
		g.i++
		g.space(true)
	}
}

func (g *reader) sequence(nested bool) ([]symbol, error) {
	var seq []symbol
	for g.i < len(g.s) {
		sym, repeats, err := g.item()
		switch {
		case err != nil:
			return nil, err
		case repeats:
			if len(seq) == 0 {
				return nil, g.bad("there is nothing to repeat")
			}
			if err := g.repetition(&seq[len(seq)-1]); err != nil {
				return nil, err
			}
		case sym == nil:
			return seq, nil
		default:
			seq = append(seq, *sym)
		}
		if g.syms++; g.syms > maxSyms {
			return nil, fmt.Errorf("there are more than %d symbols when repetitions are written out", maxSyms)
		}
		g.space(nested)
	}
	return seq, nil
}

// item reads one symbol; nil at the end of a sequence. repeats says that a
// repetition comes instead.
func (g *reader) item() (sym *symbol, repeats bool, err error) {
	terminal := &symbol{rule: -1, copies: 1}
	switch c := g.s[g.i]; {
	case c == '"':
		g.i++
		empty := g.i < len(g.s) && g.s[g.i] == '"'
		for g.i < len(g.s) && g.s[g.i] != '"' {
			if err := g.char(); err != nil {
				return nil, false, err
			}
			g.syms++
		}
		if g.i >= len(g.s) {
			return nil, false, g.bad("a literal does not end")
		}
		g.i++
		terminal.maybe = empty
		return terminal, false, nil
	case c == '[':
		return terminal, false, g.class()
	case c == '.':
		g.i++
		return terminal, false, nil
	case c == '(':
		if g.depth++; g.depth > maxDepth {
			return nil, false, fmt.Errorf("parentheses are nested deeper than %d", maxDepth)
		}
		g.i++
		g.space(true)
		n, err := g.add()
		if err != nil {
			return nil, false, err
		}
		alts, err := g.alternates(true)
		if err != nil {
			return nil, false, err
		}
		if g.i >= len(g.s) || g.s[g.i] != ')' {
			return nil, false, g.bad(") is expected")
		}
		g.i++
		g.depth--
		g.rules[n].alts, g.rules[n].defined = alts, true
		return &symbol{rule: n, copies: 1}, false, nil
	case c == '*' || c == '+' || c == '?' || c == '{':
		return nil, true, nil
	case isWord(c):
		n, err := g.rule(g.word())
		return &symbol{rule: n, copies: 1}, false, err
	case c == '|' || c == ')' || c == '\n' || c == '\r':
		return nil, false, nil
	}
	// Tokens in angle brackets are libllama's own and of no use for text.
	return nil, false, g.bad("a symbol is expected")
}

// char reads one character of a literal or class.
func (g *reader) char() error {
	if g.s[g.i] != '\\' {
		g.i++
		return nil
	}
	if g.i++; g.i >= len(g.s) {
		return g.bad("an escape does not end")
	}
	digits := 0
	switch g.s[g.i] {
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	case 't', 'r', 'n', '\\', '"', '[', ']':
	default:
		return g.bad("there is no such escape")
	}
	g.i++
	for range digits {
		if g.i >= len(g.s) || !strings.ContainsRune("0123456789abcdefABCDEF", rune(g.s[g.i])) {
			return g.bad("a hexadecimal digit is expected")
		}
		g.i++
	}
	return nil
}

func (g *reader) class() error {
	for g.i++; g.i < len(g.s) && g.s[g.i] != ']'; g.syms++ {
		if err := g.char(); err != nil {
			return err
		}
	}
	if g.i >= len(g.s) {
		return g.bad("a class does not end")
	}
	g.i++
	return nil
}

// repetition applies *, +, ? or {m,n} to the symbol before it.
func (g *reader) repetition(last *symbol) error {
	c := g.s[g.i]
	g.i++
	lo, hi := 0, 1
	switch c {
	case '+':
		lo = 1
	case '{':
		var err error
		if lo, hi, err = g.counts(); err != nil {
			return err
		}
	}
	n := max(lo, hi, 1)
	if last.copies *= n; last.copies > maxCount {
		return fmt.Errorf("a repetition has more than %d elements", maxCount)
	}
	if g.syms += last.copies; g.syms > maxSyms {
		return fmt.Errorf("there are more than %d symbols when repetitions are written out", maxSyms)
	}
	last.maybe = last.maybe || lo == 0
	return nil
}

// counts reads the rest of {m}, {m,} or {m,n}.
func (g *reader) counts() (lo, hi int, err error) {
	number := func() (int, bool) {
		g.space(false)
		from := g.i
		for g.i < len(g.s) && g.s[g.i] >= '0' && g.s[g.i] <= '9' {
			g.i++
		}
		n, err := strconv.Atoi(g.s[from:g.i])
		g.space(false)
		return n, err == nil && n <= maxCount
	}
	lo, ok := number()
	hi = lo
	if ok && g.i < len(g.s) && g.s[g.i] == ',' {
		g.i++
		g.space(false)
		if hi = math.MaxInt; g.i < len(g.s) && g.s[g.i] != '}' {
			hi, ok = number()
		}
	}
	if !ok || g.i >= len(g.s) || g.s[g.i] != '}' {
		return 0, 0, g.bad(fmt.Sprintf("{m}, {m,} or {m,n} with numbers up to %d is expected", maxCount))
	}
	g.i++
	if lo > hi {
		return 0, 0, g.bad("a repetition goes from more to less")
	}
	if hi == math.MaxInt {
		hi = lo + 1
	}
	return lo, hi, nil
}
