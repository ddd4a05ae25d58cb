package markdown

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// dump writes blocks in a short form.
func dump(blocks []Block) string {
	names := map[Kind]string{Paragraph: "p", Heading: "h", Quote: "q", Item: "i", Code: "c", Table: "t", Rule: "r"}
	var out []string
	for _, b := range blocks {
		s := names[b.Kind]
		if b.Level > 0 {
			s += fmt.Sprint(b.Level)
		}
		s += strings.Repeat(">", b.Indent)
		if b.Marker != "" {
			s += "(" + b.Marker + ")"
		}
		if b.Info != "" {
			s += "{" + b.Info + "}"
		}
		out = append(out, s+" "+strings.Join(b.Lines, "/"))
	}
	return strings.Join(out, "\n")
}

func TestSplit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"nothing":                   {"", ""},
		"blank":                     {"\n \n\t\n", ""},
		"paragraphs":                {"one\ntwo\r\n\nthree", "p one/two\np three"},
		"headings":                  {"# One\n## Two ##\n###\n####### no\n#no\ntext\n# mid", "h1 One\nh2 Two\nh3 \np ####### no/#no/text\nh1 mid"},
		"code":                      {"```go\nfunc f() {\n\n    x\n```\nafter", "c{go} func f() {//    x\np after"},
		"code not ended":            {"a\n```\nb\n", "p a\nc b"},
		"fence in a fence":          {"````md\n```\nx\n```\n````\ny", "c{md} ```/x/```\np y"},
		"tildes":                    {"~~~\n```\n~~~", "c ```"},
		"no fence":                  {"```a``` b", "p ```a``` b"},
		"indented code":             {"text\n\n    a\n      b\n\n\n    c\n\nd", "p text\nc a/  b///c\np d"},
		"indented text":             {"text\n    goes on", "p text/goes on"},
		"tab":                       {"\ta\n\t\tb", "c a/\tb"},
		"quote":                     {"> a\n>\n>> b\nc", "q a//b\np c"},
		"list":                      {"- a\n- b\n  more\nlazy\n\n- c", "i(•) a\ni(•) b/more/lazy\ni(•) c"},
		"nested":                    {"1. a\n   - b\n     - c\n   - d\n2) e\n", "i(1.) a\ni>(•) b\ni>>(•) c\ni>(•) d\ni(2.) e"},
		"sloppy":                    {"- a\n - b\n- c", "i(•) a\ni(•) b\ni(•) c"},
		"paragraph of an item":      {"- a\n\n  b\n\n  ```sh\n  c\n  ```\n- d\n\nout", "i(•) a\np> b\nc>{sh} c\ni(•) d\np out"},
		"tasks":                     {"- [ ] a\n- [x] b\n- [y] c", "i(☐) a\ni(☑) b\ni(•) [y] c"},
		"list after text":           {"text:\n- a\n\ntext:\n1. b\ntext\n2. c", "p text:\ni(•) a\np text:\ni(1.) b/text\ni(2.) c"},
		"year":                      {"It was\n1986. A year", "p It was/1986. A year"},
		"dash at the end":           {"text\n-", "p text/-"},
		"no item":                   {"-a\n1.b\n*c*", "p -a/1.b/*c*"},
		"rules":                     {"a\n---\n* * *\n___\n--", "p a\nr \nr \nr \np --"},
		"table":                     {"Look:\n| A | B |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4\nend", "p Look:\nt | A | B |/| 1 | 2 |/| 3 | 4\np end"},
		"table without outer bars":  {"A | B\n--|--\n1 | 2\n\nx", "t A | B/1 | 2\np x"},
		"no table":                  {"a | b\n---", "p a | b\nr "},
		"quote after a list":        {"- a\n\n> b\n\n- c\n  > d", "i(•) a\nq b\ni(•) c\nq> d"},
		"heading ends a list":       {"- a\n# b\n  c", "i(•) a\nh1 b\np c"},
		"item without text":         {"-\n- a", "i(•) \ni(•) a"},
		"dashes are no table twice": {"| a |\n|---|\n|---|", "t | a |/|---|"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if d := cmp.Diff(c.want, dump(Split(c.in))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

const sample = "# Title\n\nSome *text* with `code`.\nSecond line\n\n- one\n- two\n  - three\n\n    more\n\n```python\nprint('x')\n\nprint('y')\n```\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n1. first\n2. second\n\n---\nThe end."

// checkPieces writes text in the pieces that cut makes, and checks what must hold
// on the way: the result is that of the whole text, and what was frozen stays.
func checkPieces(t *testing.T, text string, cut func(left int) int) {
	t.Helper()
	same := cmpopts.EquateEmpty()
	var s Splitter
	var before []Block
	for rest := text; rest != ""; {
		n := cut(len(rest))
		s.Write(rest[:n])
		rest = rest[n:]
		blocks, frozen := s.Blocks()
		if frozen < len(before) || frozen > len(blocks) {
			t.Fatalf("%d blocks of %d are frozen, before it were %d", frozen, len(blocks), len(before))
		}
		if d := cmp.Diff(before, blocks[:len(before)], same); d != "" {
			t.Fatalf("frozen blocks changed:\n%s", d)
		}
		before = nil
		for _, b := range blocks[:frozen] { // a copy, since lines could be overwritten
			b.Lines = append([]string(nil), b.Lines...)
			before = append(before, b)
		}
	}
	got, _ := s.Blocks()
	if d := cmp.Diff(dump(Split(text)), dump(got)); d != "" {
		t.Fatalf("in pieces it is another text (-whole +pieces):\n%s", d)
	}
}

func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) {
			return r
		}
		return -1
	}, s)
}

// shown are the letters of all blocks.
func shown(blocks []Block) string {
	var b strings.Builder
	for i := range blocks {
		b.WriteString(blocks[i].Info + "\n" + blocks[i].Text() + "\n")
	}
	return letters(b.String())
}

func TestPieces(t *testing.T) {
	t.Parallel()
	checkPieces(t, sample, func(int) int { return 1 })
	r := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		checkPieces(t, sample, func(left int) int { return 1 + r.IntN(min(left, 20)) })
	}
}

func FuzzSplit(f *testing.F) {
	f.Add(sample, uint64(1))
	for i, s := range []string{"```\n\x00", "    a\n\n\n    b", "| a\n|-\n|b|c|d", "- \n\t- x\n\n\t\ty", "> ```\n> a", "1. a\n10. b\r", "* * *\n*\n**", "[x](y"} {
		f.Add(s, uint64(i))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 0))
		checkPieces(t, text, func(left int) int { return 1 + r.IntN(min(left, 40)) })
		blocks := Split(text)
		// "[x] " of a task is a mark.
		if want, got := letters(text), shown(blocks); want != got && !strings.Contains(strings.ToLower(text), "[x]") {
			t.Fatalf("letters are lost: %q, shown %q", want, got)
		}
		for i := range blocks {
			if blocks[i].Kind == Table {
				blocks[i].Aligned()
			}
		}
	})
}

func dumpSpans(spans []Span) string {
	var b strings.Builder
	for _, s := range spans {
		t := s.Text
		if s.Code {
			t = "`" + t + "`"
		}
		if s.Italic {
			t = "<i>" + t + "</i>"
		}
		if s.Bold {
			t = "<b>" + t + "</b>"
		}
		if s.Link != "" {
			t = "<a " + s.Link + ">" + t + "</a>"
		}
		b.WriteString(t)
	}
	return b.String()
}

func TestInline(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain":                                 "plain",
		"**bold** and *it*":                     "<b>bold</b> and <i>it</i>",
		"__bold__ and _it_":                     "<b>bold</b> and <i>it</i>",
		"***both***":                            "<b><i>both</i></b>",
		"**a *b* c**":                           "<b>a </b><b><i>b</i></b><b> c</b>",
		"snake_case_name":                       "snake_case_name",
		"a*b*c":                                 "a<i>b</i>c",
		"2 * 3 * 4":                             "2 * 3 * 4",
		"**open":                                "**open",
		"*a **b*":                               "*a *<i>b</i>",
		"`a*b*` ``x`y`` ` z":                    "`a*b*` `x`y` ` z",
		"`` ` ``":                               "```",
		`\*no\* \a`:                             `*no* \a`,
		"a &lt;b&gt; &amp; &x; &co":             "a <b> & &x; &co",
		"[site](https://example.org/a_(b)) end": "<a https://example.org/a_(b)>site</a> end",
		`[t](https://example.org "Title")`:      "<a https://example.org>t</a>",
		"[*it*](http://x.org)":                  "<a http://x.org>it</a>",
		"![a cat](https://x.org/c.png)":         "<a https://x.org/c.png>a cat</a>",
		"[run](javascript:alert(1)) [f](file:///etc)": "run (javascript:alert(1)) f (file:///etc)",
		"[u](https://user:pw@x.org)":                  "u (https://user:pw@x.org)",
		"[a] (b) [c]":                                 "[a] (b) [c]",
		"see https://x.org/a?b=c. Then":               "see <a https://x.org/a?b=c>https://x.org/a?b=c</a>. Then",
		"(https://x.org/a)":                           "(<a https://x.org/a>https://x.org/a</a>)",
		"<https://x.org>":                             "<a https://x.org>https://x.org</a>",
		"xhttps://no":                                 "xhttps://no",
		"https://":                                    "https://",
		"<b>html</b>":                                 "<b>html</b>",
		"日本語**太字**です":                                 "日本語<b>太字</b>です",
		"**[x](https://x.org)**":                      "<a https://x.org><b>x</b></a>",
		"a\n*b\nc*":                                   "a\n<i>b\nc</i>",
	} {
		if got := dumpSpans(Inline(in)); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func FuzzInline(f *testing.F) {
	for _, s := range []string{"**a _b_ `c` [d](https://e.f) &amp;", "*_*_*_*", "[[[](((", "`````` ` ``", "\\", "\xff*\xfe*", "![", "<http://a"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		spans := Inline(text)
		for _, s := range spans {
			if s.Text == "" || s.Link != "" && address(s.Link) == "" {
				t.Errorf("%+v", s)
			}
		}
		if !strings.ContainsAny(text, "[<&\\") { // these leave out addresses and names
			if want, got := letters(text), letters(Plain(text)); want != got {
				t.Errorf("letters are lost: %q, shown %q", want, got)
			}
		}
	})
}

// Texts made of marks must not take longer than their length asks for.
func TestHostileText(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"*a ", "**a **", "[", "[]", "`", "``` `` ", "_a*", "![x](", "> ", "- ", "|", "\\", "&", "https://", "((", "[a](b"} {
		text := strings.Repeat(s, 100_000/len(s))
		blocks := Split(text)
		for i := range blocks {
			Inline(blocks[i].Text())
			if blocks[i].Kind == Table {
				blocks[i].Aligned()
			}
		}
	}
}

func TestAligned(t *testing.T) {
	t.Parallel()
	b := Split("| Name | Größe | 日本 |\n|:--|--:|---|\n| `a|b` | **1** | x |\n| c \\| d |\n| e | f | 語 | more | too |")
	want := "Name  │ Größe │ 日本\n──────┼───────┼────────────────\na|b   │ 1     │ x\nc | d │       │\ne     │ f     │ 語 | more | too"
	if d := cmp.Diff(want, strings.Join(b[0].Aligned(), "\n")); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]string{"": "", "go": "go", "python title=x": "python", "{.rust}": "rust"} {
		if got := (&Block{Info: info}).Language(); got != want {
			t.Errorf("%q: %q", info, got)
		}
	}
}
