package protocol_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/protocol/protocoltest"

	"github.com/google/go-cmp/cmp"
)

// codesPage is generated from the table and the comments in codes.go.
const codesPage = "../../docs/protocol/errors.md"

type codeConst struct {
	name    string // Go name
	code    protocol.Code
	comment string
}

// codeConsts reads the constants from the source, in order: a code that was
// declared but left out of the table is only visible there.
func codeConsts(t *testing.T) []codeConst {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var out []codeConst
	ast.Inspect(f, func(n ast.Node) bool {
		vs, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if id, ok := vs.Type.(*ast.Ident); !ok || id.Name != "Code" {
			return true
		}
		for i, name := range vs.Names {
			lit, ok := vs.Values[i].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s is not written out", name.Name)
			}
			v, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, codeConst{name.Name, protocol.Code(v), strings.TrimSpace(vs.Comment.Text())})
		}
		return true
	})
	return out
}

func TestEveryCodeIsComplete(t *testing.T) {
	t.Parallel()
	consts := codeConsts(t)
	if len(consts) < 40 {
		t.Fatalf("only %d codes found in codes.go", len(consts))
	}
	form := regexp.MustCompile(`^[a-z]+(_[a-z]+)*$`)
	types := []string{"invalid_request_error", "authentication_error", "permission_error", "rate_limit_error", "server_error"}
	seen := make(map[protocol.Code]bool)
	for _, c := range consts {
		switch {
		case seen[c.code]:
			t.Errorf("%s: %q is used twice", c.name, c.code)
		case !c.code.Known():
			t.Errorf("%s is not in the table", c.name)
		case !form.MatchString(string(c.code)):
			t.Errorf("%s: %q is not lower case with underscores", c.name, c.code)
		case c.comment == "":
			t.Errorf("%s has no comment", c.name)
		case c.code.HTTPStatus() < 400 || c.code.HTTPStatus() > 599:
			t.Errorf("%s: HTTP status %d", c.name, c.code.HTTPStatus())
		case !slices.Contains(types, c.code.OpenAIType()):
			t.Errorf("%s: OpenAI type %q", c.name, c.code.OpenAIType())
		case (c.code.HTTPStatus() >= 500) && c.code.OpenAIType() != "server_error":
			t.Errorf("%s: status %d is not the client's fault, but type is %s", c.name, c.code.HTTPStatus(), c.code.OpenAIType())
		}
		seen[c.code] = true
	}
	for _, c := range protocol.Codes() {
		if !seen[c] {
			t.Errorf("%q is in the table, but no constant", c)
		}
	}
}

func TestCodesPage(t *testing.T) {
	t.Parallel()
	var s strings.Builder
	s.WriteString(`# Codes

Every error that crosses a boundary of Neuron carries one of these codes: on the seam, on the control channel, in the local API and in the ` + "`code`" + ` field of the OpenAI API's errors. The list is append-only and a code never changes its meaning. A code that a program does not know is treated like ` + "`internal`" + ` with status 500, and passed on unchanged.

This page is made from ` + "`engine/protocol/codes.go`" + ` by ` + "`go test ./engine/protocol -update`" + `; a test fails when it is out of date.

| code | meaning | HTTP | OpenAI type | what a person can do |
| --- | --- | --- | --- | --- |
`)
	for _, c := range codeConsts(t) {
		fmt.Fprintf(&s, "| `%s` | %s | %d | `%s` | %s |\n", c.code, c.comment, c.code.HTTPStatus(), c.code.OpenAIType(), c.code.Remedy())
	}
	s.WriteString(`
As JSON (every face but the OpenAI one):

` + "```json" + `
{"code": "kv_budget", "message": "4096 cells asked, 1024 are free", "hop": 1, "phase": "opening", "detail": {"fits": "1024"}}
` + "```" + `

` + "`hop`" + ` counts from 0 and names the first hop that reported; ` + "`phase`" + ` is what the session was doing; ` + "`param`" + ` names a wrong field of the request. Fields without a value are left out.
`)
	if *protocoltest.Update {
		if err := os.WriteFile(codesPage, []byte(s.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	page, err := os.ReadFile(codesPage)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(page), s.String()); d != "" {
		t.Errorf("docs/protocol/errors.md is out of date; run 'go test ./engine/protocol -update' (-page +codes):\n%s", d)
	}
}

func TestUnknownCode(t *testing.T) {
	t.Parallel()
	c := protocol.Code("from_the_future")
	if c.Known() || c.HTTPStatus() != 500 || c.OpenAIType() != "server_error" || c.Remedy() != "" {
		t.Errorf("known %t, %d, %s, %q", c.Known(), c.HTTPStatus(), c.OpenAIType(), c.Remedy())
	}
}

func TestErrorJSON(t *testing.T) {
	t.Parallel()
	e := protocol.Errorf(protocol.CodeStageLost, "the stage ended with status %d", 134)
	b, err := json.Marshal(e)
	if err != nil || string(b) != `{"code":"stage_lost","message":"the stage ended with status 134"}` {
		t.Errorf("%s, %v", b, err)
	}
	// Hop 0 is a hop: it must not vanish.
	b, err = json.Marshal(e.AtHop(0).InPhase(protocol.PhaseDecode).With("exit", "134"))
	if err != nil || string(b) != `{"code":"stage_lost","message":"the stage ended with status 134","hop":0,"phase":"decode","detail":{"exit":"134"}}` {
		t.Errorf("%s, %v", b, err)
	}
}

func TestErrorIdentity(t *testing.T) {
	t.Parallel()
	cause := errors.New("connection reset by peer")
	e := protocol.Errorf(protocol.CodeHopLost, "hop %d: %w", 1, cause)
	wrapped := fmt.Errorf("session: %w", e)
	if !errors.Is(wrapped, cause) || !errors.Is(wrapped, &protocol.Error{Code: protocol.CodeHopLost}) {
		t.Error("cause or code is not found in the chain")
	}
	if errors.Is(wrapped, &protocol.Error{Code: protocol.CodeStageLost}) {
		t.Error("matches another code")
	}
	if got := protocol.AsError(wrapped); got != e {
		t.Errorf("AsError: %v", got)
	}
	if protocol.AsError(nil) != nil {
		t.Error("AsError(nil)")
	}
	plain := errors.New("open /home/someone/secret: permission denied")
	got := protocol.AsError(plain)
	if got.Code != protocol.CodeInternal || strings.Contains(got.Error(), "secret") || !errors.Is(got, plain) {
		t.Errorf("AsError of a foreign error: %v", got)
	}
}

// The first hop and phase stay, and the original is not changed: errors are
// shared between goroutines.
func TestErrorCopies(t *testing.T) {
	t.Parallel()
	e := protocol.Errorf(protocol.CodeTimeout, "no answer")
	first := e.AtHop(2).InPhase(protocol.PhasePrefill).With("a", "1")
	second := first.AtHop(0).InPhase(protocol.PhaseDecode).With("b", "2")
	if e.Hop != nil || e.Phase != "" || e.Detail != nil || len(first.Detail) != 1 {
		t.Errorf("originals changed: %+v, %+v", e, first)
	}
	if *second.Hop != 2 || second.Phase != protocol.PhasePrefill {
		t.Errorf("the first report is lost: %+v", second)
	}
	if d := cmp.Diff(map[string]string{"a": "1", "b": "2"}, second.Detail); d != "" {
		t.Error(d)
	}
	if got := second.Error(); got != "timeout: no answer (hop 2)" {
		t.Errorf("%q", got)
	}
}
