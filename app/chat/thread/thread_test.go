package thread

import (
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
)

var start = time.Date(2026, 11, 30, 9, 0, 0, 0, time.UTC)

func message(id, parent ID, role Role, text string) Message {
	return Message{ID: id, Parent: parent, Role: role, Text: text, State: StateComplete, Created: start.Add(time.Duration(id) * time.Second)}
}

// A question with two answers, the second of which was gone on with, and an
// edited question beside the first.
func sample() *Tree {
	m := []Message{
		message(1, 0, RoleUser, "q1"), message(2, 1, RoleAssistant, "a1"), message(3, 1, RoleAssistant, "a1 again"),
		message(4, 3, RoleUser, "q2"), message(5, 4, RoleAssistant, "a2"), message(6, 0, RoleUser, "q1 edited"),
	}
	rand.Shuffle(len(m), func(i, j int) { m[i], m[j] = m[j], m[i] })
	return NewTree(m)
}

// TestMessagesOfOneMoment: a question and its answer that were made within one
// microsecond came from the store in any order, and the answer lost its question.
func TestMessagesOfOneMoment(t *testing.T) {
	t.Parallel()
	m := []Message{message(9, 0, RoleUser, "q"), message(5, 9, RoleAssistant, "a"), message(3, 5, RoleUser, "q2"), message(4, 3, RoleAssistant, "a2")}
	for i := range m {
		m[i].Created = start
	}
	for range 30 {
		rand.Shuffle(len(m), func(i, j int) { m[i], m[j] = m[j], m[i] })
		if got := texts(NewTree(m).Path(4)); got != "q|a|q2|a2" {
			t.Fatalf("%s", got)
		}
	}
}

func texts(path []Message) string {
	var out []string
	for _, m := range path {
		out = append(out, m.Text)
	}
	return strings.Join(out, "|")
}

func TestTree(t *testing.T) {
	t.Parallel()
	tree := sample()
	for head, want := range map[ID]string{5: "q1|a1 again|q2|a2", 2: "q1|a1", 6: "q1 edited", 0: "", 99: ""} {
		if got := texts(tree.Path(head)); got != want {
			t.Errorf("path of %d is %q, want %q", head, got, want)
		}
	}
	for id, want := range map[ID][2]int{1: {1, 2}, 6: {2, 2}, 2: {1, 2}, 3: {2, 2}, 5: {1, 1}, 99: {0, 0}} {
		if place, of := tree.Place(id); place != want[0] || of != want[1] {
			t.Errorf("%d is %d of %d, want %v", id, place, of, want)
		}
	}
	// Going to a sibling shows the newest branch below it.
	for _, c := range []struct {
		id   ID
		step int
		want ID
	}{{6, -1, 5}, {1, 1, 6}, {3, -1, 2}, {2, 1, 5}, {1, -1, 1}, {6, 1, 6}, {99, 1, 99}} {
		if got := tree.Sibling(c.id, c.step); got != c.want {
			t.Errorf("sibling %+d of %d leads to %d, want %d", c.step, c.id, got, c.want)
		}
	}
	if got := texts(tree.All()); got != "q1|a1|a1 again|q2|a2|q1 edited" {
		t.Errorf("all: %s", got)
	}
}

// A message that lost its parent, names itself as parent, or comes twice, must
// not hide the rest or hang.
func TestTreeOfDamagedMessages(t *testing.T) {
	t.Parallel()
	tree := NewTree([]Message{message(1, 7, RoleUser, "orphan"), message(2, 2, RoleUser, "own parent"), message(3, 4, RoleUser, "a"), message(4, 3, RoleUser, "b"), message(4, 3, RoleUser, "c")})
	if tree.Len() != 4 || len(tree.All()) != 4 {
		t.Errorf("%d messages, %d reachable", tree.Len(), len(tree.All()))
	}
	if got := texts(tree.Path(4)); got != "a|c" {
		t.Errorf("path %q", got)
	}
}

func TestTitle(t *testing.T) {
	t.Parallel()
	for question, want := range map[string]string{
		"What is Neuron?":           "What is Neuron?",
		"\n\n  ## Hello \t you ":    "Hello you",
		"```\ncode here\n```":       "code here",
		"...\n\n":                   "",
		"":                          "",
		"a\x00b\x1b[2J":             "a b [2J",
		strings.Repeat("word ", 40): "word word word word word word word word word word word word…",
		strings.Repeat("ü", 100):    strings.Repeat("ü", maxTitle) + "…",
	} {
		if got := Title(question); got != want {
			t.Errorf("title of %q is %q, want %q", question, got, want)
		}
	}
}

func FuzzTitle(f *testing.F) {
	f.Add("- What is\tthis?")
	f.Fuzz(func(t *testing.T, s string) {
		if got := Title(s); utf8.RuneCountInString(got) > maxTitle+1 || strings.ContainsAny(got, "\n\r\t\x00") {
			t.Errorf("%q", got)
		}
		if name := FileName(s); strings.ContainsAny(name, `/\:*?"<>|.`) || utf8.RuneCountInString(name) > maxTitle+5 || name == "" {
			t.Errorf("%q", name)
		}
	})
}

func TestTurns(t *testing.T) {
	t.Parallel()
	got := Turns([]Message{
		message(1, 0, RoleUser, "q1"), message(2, 1, RoleAssistant, ""), message(3, 2, RoleUser, "q2"),
		message(4, 3, RoleAssistant, "half"), message(5, 4, RoleUser, "q3"),
	})
	want := []Turn{{RoleUser, "q1\n\nq2"}, {RoleAssistant, "half"}, {RoleUser, "q3"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestStatsOf(t *testing.T) {
	t.Parallel()
	tm := protocol.Telemetry{
		Phase: protocol.PhaseDecode, Tokens: 21, PrefillTotal: 40, TokensPerSecond: 33, FirstTokenMillis: 500, ElapsedMillis: 1500,
		Route: []protocol.HopTelemetry{{Node: "n1", Use: protocol.Range{First: 0, Last: 4}, Health: "ok", Counters: protocol.Counters{DecodeSteps: 20, DecodeMicros: 50000}}, {Node: "n2", Use: protocol.Range{First: 4, Last: 6}, Health: "slow"}},
	}
	want := &Stats{Tokens: 21, PromptTokens: 40, TokensPerSecond: 33, FirstTokenMillis: 500, ElapsedMillis: 1500, Hops: []Hop{
		{Node: "n1", Use: protocol.Range{First: 0, Last: 4}, Health: "ok", StepMillis: 2.5}, {Node: "n2", Use: protocol.Range{First: 4, Last: 6}, Health: "slow"},
	}}
	if d := cmp.Diff(want, StatsOf(&tm)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	// In the end the rate is that of the whole answer, not of its last seconds.
	tm.Phase = protocol.PhaseDone
	if got := StatsOf(&tm).TokensPerSecond; got != 20 {
		t.Errorf("%v tokens/s at the end, want 20", got)
	}
}

func TestExport(t *testing.T) {
	t.Parallel()
	tree := sample()
	seed := uint32(7)
	c := Chat{ID: 9, Title: "A title", System: "Be brief.", Private: true, Params: Params{Seed: &seed}, Head: 2, Created: start, Updated: start}
	half := *tree.Get(2)
	half.State, half.Model = StateStopped, "guide"
	tree.Put(half)

	want := "# A title\n\n2026-11-30 09:00\n\n## System\n\nBe brief.\n\n## You\n\nq1\n\n## guide\n\na1\n\n*incomplete*\n"
	if got := string(Markdown(&c, tree.Path(2), Labels{You: "You", Answer: "Answer", System: "System", Incomplete: "incomplete"})); got != want {
		t.Errorf("Markdown:\n%s", got)
	}
	raw, err := JSON(&c, tree)
	if err != nil {
		t.Fatal(err)
	}
	var back file
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Messages) != 6 || back.Policy != "private" || back.Messages[1].State != StateStopped || back.Head != back.Messages[1].ID || *back.Params.Seed != 7 {
		t.Errorf("JSON:\n%s", raw)
	}
}
