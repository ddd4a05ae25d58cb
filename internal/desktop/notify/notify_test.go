package notify

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"neuron/engine/protocol"
)

type call struct {
	title, text string
	replaces    uint32
}

func TestOneOfAKindInTenMinutes(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	var calls []call
	fail := false
	n := New("Neuron")
	n.now = func() time.Time { return now }
	n.show = func(_ context.Context, app, title, text string, replaces uint32) (uint32, error) {
		if app != "Neuron" || fail {
			return 0, errors.New("no service")
		}
		calls = append(calls, call{title, text, replaces})
		return uint32(40 + len(calls)), nil
	}
	show := func(kind string, want bool) {
		t.Helper()
		if got, err := n.Show(t.Context(), kind, "title", "text of "+kind); got != want || err != nil {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
	}
	show("disk", true)
	show("disk", false)
	show("engine", true)
	now = now.Add(Every - time.Second)
	show("disk", false)
	now = now.Add(time.Second)
	show("disk", true)
	want := []call{{"title", "text of disk", 0}, {"title", "text of engine", 41}, {"title", "text of disk", 42}}
	if len(calls) != len(want) {
		t.Fatalf("%+v", calls)
	}
	for i := range want {
		if calls[i] != want[i] {
			t.Errorf("%+v, want %+v", calls[i], want[i])
		}
	}
	// One that could not be shown does not count.
	fail, now = true, now.Add(Every)
	if _, err := n.Show(t.Context(), "disk", "", ""); protocol.AsError(err).Code != protocol.CodeUnavailable {
		t.Error(err)
	}
	fail = false
	show("disk", true)
}

func TestLongTextsAreCut(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "short", strings.Repeat("é", maxText), strings.Repeat("x", maxText+1), strings.Repeat("漢", 1000)} {
		got := cut(s)
		if len(got) > maxText+2 || !utf8.ValidString(got) || len(s) <= maxText && got != s || len(s) > maxText && !strings.HasSuffix(got, "…") {
			t.Errorf("%d bytes became %d: %.20q", len(s), len(got), got)
		}
	}
}
