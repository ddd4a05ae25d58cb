package gbnf

import (
	"strings"
	"testing"
	"time"
)

// What libllama itself says of grammars is compared in package llama's tests.

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ src, want string }{
		{`root ::= "a" | [b-d]{2,3} (x | "")* .?` + "\nx ::= \"\\x41\\u00e9\" # comment\n", ""},
		{"root ::= x{0,1999}\nx ::= \"a\"", ""},
		{"root ::=\n  \"a\" |\n  \"b\"\n", ""},
		{"", "no rule named root"},
		{"x ::= \"a\"", "no rule named root"},
		{"root ::= x", "line 1 names is not defined"},
		{"root ::= \"a\"\nroot ::= \"b\"", "twice at line 2"},
		{`root ::= "a"{5,2}`, "from more to less"},
		{`root ::= "a"{2000}`, "numbers up to 1999"},
		{`root ::= ("a"{1999}){2}{1000}`, "more than 1999"},
		{"root ::= root \"a\"", "begins with itself"},
		{"root ::= x? root | \"a\"\nx ::= \"b\"?", "begins with itself"},
		{"root ::= <[5]>", "a symbol is expected"},
		{"root ::= \"a", "does not end"},
		{"root ::= [a", "does not end"},
		{"root ::= \"\\q\"", "no such escape"},
		{"root ::= *", "nothing to repeat"},
		{"root ::= (\"a\"", ") is expected"},
		{"root := \"a\"", "::= is expected"},
		{"root ::= " + strings.Repeat("(", 100) + strings.Repeat(")", 100), "deeper than"},
		{"root ::= " + strings.Repeat("\"a\"? ", 300), "more than 160 ways"},
		{"root ::= " + strings.Repeat("x{1999} ", 100) + "\nx ::= \"a\"", "written out"},
	} {
		start := time.Now()
		err := Check(tc.src, "root")
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%.60q: %v, want %q", tc.src, err, tc.want)
		}
		if d := time.Since(start); d > time.Second {
			t.Errorf("%.60q took %s", tc.src, d)
		}
	}
}

func FuzzCheck(f *testing.F) {
	f.Add("root ::= \"a\"? | b{2,3}\nb ::= . root* # x")
	f.Add(`a::=((("`)
	f.Fuzz(func(t *testing.T, s string) {
		if err := Check(s, "root"); err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Error("an error without a word")
		}
	})
}
