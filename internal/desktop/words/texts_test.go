package words

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"neuron/assets/translations"
)

// message is a text with its plural forms; a plain one has "other" alone.
type message map[string]string

// readTexts reads every text of a language by its own means, so that what the
// library forgives is seen: area to id to message.
func readTexts(t *testing.T, tag string) map[string]map[string]message {
	t.Helper()
	out := map[string]map[string]message{}
	names, err := fs.Glob(translations.Files, "*."+tag+".json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		b, err := translations.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		area := strings.TrimSuffix(name, "."+tag+".json")
		texts := map[string]message{}
		d := json.NewDecoder(strings.NewReader(string(b)))
		if err := eachKey(d, func(id string, raw json.RawMessage) error {
			if texts[id] != nil {
				t.Errorf("%s: %s stands there twice", name, id)
			}
			var plain string
			if json.Unmarshal(raw, &plain) == nil {
				texts[id] = message{"other": plain}
				return nil
			}
			var m message
			if err := json.Unmarshal(raw, &m); err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			texts[id] = m
			return nil
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		out[area] = texts
	}
	return out
}

// eachKey reads one object without losing keys that are there twice.
func eachKey(d *json.Decoder, f func(string, json.RawMessage) error) error {
	if tok, err := d.Token(); err != nil || tok != json.Delim('{') {
		return fmt.Errorf("no object: %v, %w", tok, err)
	}
	for d.More() {
		tok, err := d.Token()
		if err != nil {
			return err
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if err := f(tok.(string), raw); err != nil {
			return err
		}
	}
	return nil
}

// forms are the plural forms that a language needs, for whole numbers.
var forms = map[string][]string{"en": {"one", "other"}, "de": {"one", "other"}, "fr": {"many", "one", "other"}}

var (
	idForm      = regexp.MustCompile(`^[a-z]+\.[a-z0-9_]+(\.[a-z0-9_]+)*$`)
	placeholder = regexp.MustCompile(`\{\{[^}]*\}\}`)
	goodHolder  = regexp.MustCompile(`^\{\{\.[A-Z][A-Za-z0-9]*\}\}$`)
)

func holders(m message) []string {
	var out []string
	for _, s := range m {
		out = append(out, placeholder.FindAllString(s, -1)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func TestLanguagesHaveTheSameTexts(t *testing.T) {
	t.Parallel()
	english := readTexts(t, "en")
	if len(english) == 0 {
		t.Fatal("no texts")
	}
	for _, l := range Languages() {
		texts := readTexts(t, l.Tag)
		for area := range texts {
			if english[area] == nil {
				t.Errorf("%s: the area %s has no English file", l.Tag, area)
			}
		}
		for area, ids := range english {
			if texts[area] == nil {
				t.Errorf("%s: the area %s is missing", l.Tag, area)
				continue
			}
			for id, m := range texts[area] {
				if ids[id] == nil {
					t.Errorf("%s: %s has no English text", l.Tag, id)
				}
				checkMessage(t, l.Tag, area, id, m)
			}
			for id, m := range ids {
				other := texts[area][id]
				if other == nil {
					t.Errorf("%s: %s is missing", l.Tag, id)
				} else if a, b := holders(m), holders(other); !slices.Equal(a, b) {
					t.Errorf("%s: %s has the placeholders %v, in English %v", l.Tag, id, b, a)
				}
			}
		}
	}
}

func checkMessage(t *testing.T, tag, area, id string, m message) {
	t.Helper()
	if !idForm.MatchString(id) || !strings.HasPrefix(id, area+".") {
		t.Errorf("%s: %s is not of the form %s.name", tag, id, area)
	}
	keys := make([]string, 0, len(m))
	for k, s := range m {
		keys = append(keys, k)
		if strings.TrimSpace(s) == "" || strings.TrimSpace(s) != s {
			t.Errorf("%s: %s is empty or has blanks around it: %q", tag, id, s)
		}
	}
	slices.Sort(keys)
	if len(keys) > 1 && !slices.Equal(keys, forms[tag]) {
		t.Errorf("%s: %s has the plural forms %v, not %v", tag, id, keys, forms[tag])
	}
	if len(keys) == 1 && keys[0] != "other" {
		t.Errorf("%s: %s has the form %s alone", tag, id, keys[0])
	}
	if len(keys) > 1 && !slices.Contains(holders(m), "{{.Count}}") {
		t.Errorf("%s: %s has plural forms and no Count", tag, id)
	}
	for _, h := range holders(m) {
		if !goodHolder.MatchString(h) {
			t.Errorf("%s: %s has the placeholder %s", tag, id, h)
		}
	}
}

// Every text is shown in the same way by Words: no form is lost on the way.
func TestEveryTextCanBeTold(t *testing.T) {
	t.Parallel()
	for _, l := range Languages() {
		w := New(l.Tag)
		for _, texts := range readTexts(t, l.Tag) {
			for id, m := range texts {
				var pairs []any
				for _, h := range holders(m) {
					name := strings.Trim(h, "{}.")
					if name == "Count" {
						pairs = append(pairs, name, 2)
					} else {
						pairs = append(pairs, name, "VALUE")
					}
				}
				s := w.T(id, pairs...)
				if s == id || strings.Contains(s, "<no value>") || strings.Contains(s, "{{") {
					t.Errorf("%s: %s is told as %q", l.Tag, id, s)
				}
			}
		}
	}
}

// use is what the code says about ids.
type use struct {
	calls    map[string][]string // ids and beginnings of ids ("x.y_" + z) given to T, with where
	literals map[string]bool     // every string literal
}

// readCode parses the programs that show texts; tests are left out.
func readCode(t *testing.T, root string, folders ...string) use {
	t.Helper()
	u := use{calls: map[string][]string{}, literals: map[string]bool{}}
	set := token.NewFileSet()
	for _, dir := range folders {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool { u.visit(set, n); return true })
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	return u
}

func (u *use) visit(set *token.FileSet, n ast.Node) {
	switch n := n.(type) {
	case *ast.BasicLit:
		if s, ok := literal(n); ok {
			u.literals[s] = true
		}
	case *ast.CallExpr:
		sel, ok := n.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "T" || len(n.Args) == 0 {
			return
		}
		id, ok := literal(n.Args[0])
		if b, isSum := n.Args[0].(*ast.BinaryExpr); isSum && b.Op == token.ADD {
			for l, more := b, true; more; l, more = l.X.(*ast.BinaryExpr) {
				id, ok = literal(l.X)
			}
			id += "*"
		}
		if ok {
			u.calls[id] = append(u.calls[id], set.Position(n.Pos()).String())
		}
	}
}

func literal(e ast.Expr) (string, bool) {
	l, ok := e.(*ast.BasicLit)
	if !ok || l.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(l.Value)
	return s, err == nil
}

func TestCodeAndTextsAgree(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, ids := range readTexts(t, "en") {
		for id := range ids {
			known[id] = true
		}
	}
	u := readCode(t, filepath.Join("..", "..", ".."), "app", "tray", filepath.Join("internal", "desktop"))
	if len(u.calls) == 0 {
		t.Fatal("no code asks for a text")
	}
	used := map[string]bool{}
	for id, where := range u.calls {
		begin, isBegin := strings.CutSuffix(id, "*")
		found := false
		for k := range known {
			if k == id || isBegin && strings.HasPrefix(k, begin) {
				used[k], found = true, true
			}
		}
		if !found {
			t.Errorf("%s: %s has no text", where[0], id)
		}
	}
	for id := range known {
		if !used[id] && !u.literals[id] && !u.beginning(id) {
			t.Errorf("%s is used by no code", id)
		}
	}
}

// beginning reports whether a literal of the code is the beginning of id up to
// a "_" or ".", to which something is added elsewhere than in a call of T.
func (u *use) beginning(id string) bool {
	for i := strings.IndexByte(id, '.') + 2; i < len(id); i++ {
		if c := id[i-1]; (c == '_' || c == '.') && u.literals[id[:i]] {
			return true
		}
	}
	return false
}
