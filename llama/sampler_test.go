package llama

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSeedMakesSamplingReproducible(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	c := newContext(t, m, ContextParams{})
	run := func(seed uint32) []int32 {
		c.Memory().Clear(true)
		s := chain(t, Penalties(m.Vocab().N(), 64, 1.1, 0.1, 0.1), TopK(40), TopP(0.98, 1), MinP(0.01, 1), Temp(1.8), Dist(seed))
		return generate(t, c, m, s, "<|im_start|>user\n", 0, 30)
	}
	a, again, other := run(1), run(1), run(2)
	if d := cmp.Diff(a, again); d != "" {
		t.Error(d)
	}
	if cmp.Equal(a, other) {
		t.Error("another seed gives the same text")
	}
}

// logitsFor makes logits over n tokens with the given ones set.
func logitsFor(n int, set map[int]float32) []float32 {
	l := make([]float32, n)
	for id, v := range set {
		l[id] = v
	}
	return l
}

func TestSamplersWork(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	v := m.Vocab()
	n := v.N()
	logits := logitsFor(n, map[int]float32{7: 9, 8: 8, 9: 7})
	dry, err := DRY(v, 0.8, 1.75, 2, 64, []string{"\n", ":"})
	if err != nil {
		t.Fatal(err)
	}
	bias, err := NewLogitBias(n, []LogitBias{{Token: 7, Bias: float32(math.Inf(-1))}, {Token: 9, Bias: 5}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		s       Sampler
		members []Sampler
		want    []int32 // one of them; empty: any
	}{
		{"greedy", 0, []Sampler{Greedy()}, []int32{7}},
		{"logit bias", 0, []Sampler{bias, Greedy()}, []int32{9}},
		{"top k", 0, []Sampler{TopK(1), Dist(3)}, []int32{7}},
		{"top k 2", 0, []Sampler{TopK(2), Dist(3)}, []int32{7, 8}},
		{"top p", 0, []Sampler{TopP(0.1, 1), Dist(3)}, []int32{7}},
		{"min p", 0, []Sampler{MinP(0.9, 1), Dist(3)}, []int32{7}},
		{"typical", 0, []Sampler{Typical(0.5, 1), Dist(3)}, nil},
		{"temperature zero", 0, []Sampler{Temp(0), Dist(3)}, []int32{7}},
		{"temperature range", 0, []Sampler{TempExt(0.7, 0.2, 1), TopK(1), Dist(3)}, []int32{7}},
		{"sigma", 0, []Sampler{TopNSigma(1), Dist(3)}, []int32{7, 8, 9}},
		{"xtc", 0, []Sampler{XTC(1, 0.05, 1, 4), Greedy()}, nil},
		{"dry", 0, []Sampler{dry, Greedy()}, []int32{7}},
		{"mirostat", 0, []Sampler{Mirostat(n, 5, 5, 0.1, 100)}, nil},
		{"mirostat 2", 0, []Sampler{MirostatV2(5, 5, 0.1)}, nil},
		{"adaptive", 0, []Sampler{AdaptiveP(0.5, 0.9, 6)}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := chain(t, c.members...)
			got, err := s.SampleLogits(logits)
			if err != nil {
				t.Fatal(err)
			}
			ok := len(c.want) == 0
			for _, id := range c.want {
				ok = ok || id == got
			}
			if !ok || s.Name() == "" {
				t.Errorf("%d, want one of %v", got, c.want)
			}
			s.Reset()
		})
	}
}

func TestPenaltiesLowerAcceptedTokens(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	n := m.Vocab().N()
	logits := logitsFor(n, map[int]float32{7: 9, 8: 8.5})
	s := chain(t, Penalties(n, 4, 1, 0, 2), Greedy())
	var got []int32
	for range 3 {
		id, err := s.SampleLogits(logits)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, id)
	}
	if d := cmp.Diff([]int32{7, 8, 7}, got); d != "" {
		t.Error(d)
	}
	clone := s.Clone()
	defer clone.Free()
	a, _ := s.SampleLogits(logits)
	b, err := clone.SampleLogits(logits)
	if err != nil || a != b {
		t.Errorf("clone picks %d, the original %d, %v", b, a, err)
	}
	s.Reset()
	if id, _ := s.SampleLogits(logits); id != 7 {
		t.Errorf("after Reset: %d", id)
	}
}

func TestSamplerRefuses(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	v := m.Vocab()
	nan := float32(math.NaN())
	for i, s := range []Sampler{Temp(nan), TopP(nan, 1), MinP(nan, 1), Penalties(0, 1, 1, 0, 0), Penalties(8, 1, 0, 0, 0),
		Penalties(8, 1<<30, 1, 0, 0), Mirostat(0, 1, 5, 0.1, 100), AdaptiveP(0.5, 2, 0), XTC(nan, 0, 1, 0)} {
		if s != 0 {
			t.Errorf("sampler %d was made", i)
		}
	}
	s := chain(t)
	wantCode(t, s.Add(0), CodeSamplerInvalid)
	_, err := s.SampleLogits(make([]float32, 8))
	wantCode(t, err, CodeSamplerInvalid) // empty chain
	if err := s.Add(Greedy()); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(TopK(5)); err != nil {
		t.Fatal(err)
	}
	_, err = s.SampleLogits(make([]float32, 8))
	wantCode(t, err, CodeSamplerInvalid) // picks, but not at the end
	wantCode(t, s.Add(chain(t)), CodeSamplerInvalid)
	g := Greedy()
	defer g.Free()
	_, err = g.SampleLogits([]float32{1, nan})
	wantCode(t, err, CodeSamplerReject)
	inf := float32(math.Inf(-1))
	_, err = g.SampleLogits([]float32{inf, inf})
	wantCode(t, err, CodeSamplerReject)
	_, err = g.SampleLogits(nil)
	wantCode(t, err, CodeInvalidArg)
	wantCode(t, g.Accept(-1), CodeInvalidArg)
	_, err = NewLogitBias(8, []LogitBias{{Token: 8}})
	wantCode(t, err, CodeSamplerInvalid)
	_, err = NewLogitBias(8, []LogitBias{{Token: -1}})
	wantCode(t, err, CodeSamplerInvalid)
	_, err = DRY(v, 1, 1, 1, 1, []string{""})
	wantCode(t, err, CodeSamplerInvalid)
	p := Penalties(v.N(), 4, 1, 0, 0)
	defer p.Free()
	wantCode(t, p.Apply(&Candidates{Data: []TokenData{{ID: 9999}}}), CodeInvalidArg)
	c := newContext(t, m, ContextParams{})
	_, err = g.Sample(c, 0)
	wantCode(t, err, CodeNoOutput)
	g.Free()
	_, err = g.SampleLogits([]float32{1})
	wantCode(t, err, CodeInvalidHandle)
}

const jsonish = `
# a comment with root ::= inside
root ::= "{" ws "\"answer\": " ("true" | "false") ws "}"
ws   ::= [ \n]{0,2}
`

func TestGrammar(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	v := m.Vocab()
	g, err := Grammar(v, jsonish, "root")
	if err != nil {
		t.Fatal(err)
	}
	s := chain(t, g, Greedy())
	c := newContext(t, m, ContextParams{})
	ids := generate(t, c, m, s, chatPrompt, 0, 60)
	text, err := v.Detokenize(ids, false, false)
	if err != nil {
		t.Fatal(err)
	}
	compact := strings.Join(strings.Fields(text), "")
	if compact != `{"answer":true}` && compact != `{"answer":false}` {
		t.Errorf("text %q does not fit the grammar", text)
	}
	// A token that the grammar does not allow is refused, and the state stays.
	s.Reset()
	wrong, err := v.Tokenize("x", false, false)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Accept(wrong[0]), CodeSamplerReject)
	wantCode(t, s.Accept(v.EOS()), CodeSamplerReject)
	right, err := v.Tokenize("{", false, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Accept(right[0]); err != nil {
		t.Error(err)
	}
	clone := s.Clone()
	defer clone.Free()
	wantCode(t, clone.Accept(wrong[0]), CodeSamplerReject)
	// Nothing that the grammar wants is possible.
	logits := make([]float32, v.N())
	for i := range logits {
		logits[i] = float32(math.Inf(-1))
	}
	_, err = s.SampleLogits(logits)
	wantCode(t, err, CodeSamplerReject)
}

func TestGrammarRefuses(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	v := m.Vocab()
	for name, c := range map[string][2]string{
		"empty":               {"", "root"},
		"no rule":             {"hello", "root"},
		"open literal":        {`root ::= "abc`, "root"},
		"undefined rule":      {`root ::= other`, "root"},
		"left recursion":      {`root ::= root "a" | "b"`, "root"},
		"no such root":        {`root ::= "a"`, "start"},
		"root only in text":   {"root ::= \"a\\\"\n start ::= b\"", "start"},
		"root only in class":  {"root ::= [x start ::= ]", "start"},
		"root in a comment":   {"root ::= \"a\" # start ::= \"b\"", "start"},
		"no rule named root":  {`start ::= "a"`, "start"},
		"deep":                {"root ::= " + strings.Repeat("(", 5000) + `"a"` + strings.Repeat(")", 5000), "root"},
		"long":                {"root ::= \"" + strings.Repeat("a", maxGrammar) + "\"", "root"},
		"zero byte":           {"root ::= \"a\"\x00", "root"},
		"huge repetition":     {`root ::= "a"{0,99999999}`, "root"},
		"repetition, spaced":  {"root ::= \"a\"{ 1 ,\t 99999 }", "root"},
		"wild repetition":     {`root ::= "a"{9999999999999999999999}`, "root"},
		"bad escape":          {`root ::= "\xZZ"`, "root"},
		"open class":          {`root ::= [a-`, "root"},
		"negative repetition": {`root ::= "a"{-1}`, "root"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Grammar(v, c[0], c[1])
			s.Free()
			wantCode(t, err, CodeGrammar)
		})
	}
}

func TestLazyGrammarWaitsForItsTrigger(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	v := m.Vocab()
	im, err := v.Tokenize("<|im_start|>", false, true)
	if err != nil || len(im) != 1 {
		t.Fatal(im, err)
	}
	_, err = GrammarLazyPatterns(v, jsonish, "root", nil, nil)
	wantCode(t, err, CodeSamplerInvalid)
	g, err := GrammarLazyPatterns(v, `root ::= "<tool>" [a-z]+`, "root", []string{`[\s\S]*?(<tool>)[\s\S]*`}, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := chain(t, g, Greedy())
	for _, text := range []string{"Free text 123 ", "<tool>", "abc"} {
		ids, err := v.Tokenize(text, false, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if err := s.Accept(id); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
	}
	digits, err := v.Tokenize("1", false, false)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, s.Accept(digits[0]), CodeSamplerReject)
}

// TestGrammarCost: what would keep libllama busy for minutes, or for ever, is
// refused before it sees it.
func TestGrammarCost(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	v := m.Vocab()
	var nullable, doubled strings.Builder
	nullable.WriteString("root ::= r0 \"a\"\n")
	doubled.WriteString("root ::= r0\n")
	for i := range 400 {
		fmt.Fprintf(&nullable, "r%d ::= \"b\"? r%d\n", i, i+1)
		fmt.Fprintf(&doubled, "r%d ::= r%d \"x\" | r%d \"y\"\n", i, i+1, i+1)
	}
	nullable.WriteString("r400 ::= \"c\"\n")
	doubled.WriteString("r400 ::= \"c\"\n")
	for name, gbnf := range map[string]string{
		"backwards":           `root ::= "a"{5,2}`,
		"chain of optionals":  nullable.String(),
		"doubled beginnings":  doubled.String(),
		"multiplied":          `root ::= (("a"{1000}){1000}){1000}`,
		"repeated optional":   `root ::= x{1000}` + "\n" + `x ::= "a"?`,
		"many repetitions":    "root ::= " + strings.Repeat("x{1999} ", 200) + "\nx ::= \"a\"",
		"left recursion":      "root ::= x \"a\"\nx ::= y?\ny ::= root",
		"recursion of one":    "root ::= x\nx ::= x",
		"tokens":              `root ::= <[5]>`,
		"nothing to repeat":   `root ::= *`,
		"parenthesis":         `root ::= ( "a"`,
		"twice":               "root ::= \"a\"\nroot ::= \"b\"",
		"a bound without end": `root ::= "a"{2`,
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			s, err := Grammar(v, gbnf, "root")
			s.Free()
			wantCode(t, err, CodeGrammar)
			if d := time.Since(start); d > time.Second {
				t.Errorf("took %s", d)
			}
		})
	}
	for name, gbnf := range map[string]string{
		"lists and comments": "# x\nroot ::= ( a |\n  b )* # y\n\na ::= [^\\]a-z\\x41] . \"\\\"\\u00e9\"\nb ::= a{2} a{2,} a{0,3} ( \"\" | a+ )? \n",
		"the most":           "root ::= x{0,1999}\nx ::= \"a\"",
	} {
		s, err := Grammar(v, gbnf, "root")
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.Free()
	}
}

// FuzzGrammar: what passes our reading does not harm libllama.
func FuzzGrammar(f *testing.F) {
	for _, s := range []string{jsonish, `root ::= [\]] "\"" # x`, `a::=((("`, "root ::= (\"a\"? | b){2,3}\nb ::= . root*", `root ::= "a"{1,}`} {
		f.Add(s)
	}
	v := loadGuide(f, ModelParams{VocabOnly: true}).Vocab()
	f.Fuzz(func(_ *testing.T, s string) {
		g, err := Grammar(v, s, "root")
		if err != nil {
			return
		}
		defer g.Free()
		one := Candidates{Data: []TokenData{{ID: 40}, {ID: 41}, {ID: 500}, {ID: v.EOS()}}}
		if g.Apply(&one) == nil {
			_ = g.Accept(one.Data[0].ID) // refusing is right, too
		}
	})
}
