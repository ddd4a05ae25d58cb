package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/app/chat/store"
	"neuron/app/chat/thread"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

func same(t *testing.T, want []string, v View) {
	t.Helper()
	if d := cmp.Diff(want, texts(v)); d != "" {
		t.Errorf("messages (-want +got):\n%s", d)
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"Hello", " there"}}, {pieces: []string{"More"}}}, func(t *testing.T, r *rig) {
		v := r.ask("Who are you?\nReally?")
		same(t, []string{"Who are you?\nReally?", "Hello there"}, v)
		if v.Title != "Who are you?" || v.Messages[1].Note != "" || v.Messages[1].Problem != nil || v.Messages[1].Name != gatewaytest.ModelName {
			t.Errorf("%+v", v)
		}
		if v.Strip == nil || v.Strip.Running || v.Strip.Phase != "Done" || v.Strip.Kind != "Public route" || !slices.Contains(v.Strip.Figures, "2 tokens") {
			t.Errorf("strip %+v", v.Strip)
		}
		same(t, []string{"Who are you?\nReally?", "Hello there", "And?", "More"}, r.ask("And?"))
		want := []thread.Turn{{Role: "user", Text: "Who are you?\nReally?"}, {Role: "assistant", Text: "Hello there"}, {Role: "user", Text: "And?"}}
		if d := cmp.Diff(want, r.engine.last().Turns); d != "" {
			t.Errorf("the model is told (-want +got):\n%s", d)
		}

		// The next start has it in the list, and begins a chat.
		r.again()
		v = r.View()
		if len(entries(v)) != 1 || v.Groups[0].Title != "Today" || len(v.Messages) != 0 || v.Model != gatewaytest.ModelName {
			t.Fatalf("%+v", v)
		}
		r.Open(entries(v)[0])
		same(t, []string{"Who are you?\nReally?", "Hello there", "And?", "More"}, r.settled())
	})
}

func TestNothingToSend(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"x"}}}, func(t *testing.T, r *rig) {
		if r.Send(" \n") {
			t.Error("a blank question is taken")
		}
		r.engine.set(link.Absent)
		v := r.await("no engine", func(v View) bool { return v.Engine.Phase == link.Absent })
		if r.Send("q") || v.CanSend || v.Hint == "" || v.Engine.Text == "" {
			t.Errorf("without an engine: %+v", v)
		}
		r.StartEngine()
		r.engine.set(link.Connected)
		r.await("engine", func(v View) bool { return v.CanSend })
		if v := r.ask("q"); r.engine.retried != 1 || len(v.Messages) != 2 {
			t.Errorf("%+v", v)
		}
	})
}

// Try again did nothing while no engine ran, and said nothing.
func TestTryAgainWithoutAnEngine(t *testing.T) {
	t.Parallel()
	lost := protocol.Errorf(protocol.CodeAnswerBroken, "gone")
	suite(t, []script{{pieces: []string{"half"}, fail: lost}, {pieces: []string{"whole"}}}, func(t *testing.T, r *rig) {
		v := r.ask("q")
		id, noted := v.Messages[1].ID, v.Messages[1].Note
		waits := func(v View) bool { return v.Messages[1].Note != noted && v.Messages[1].Problem == nil }
		absent := func(v View) bool { return v.Engine.Phase == link.Absent }
		r.engine.set(link.Absent)
		r.await("no engine", absent)
		if !r.Regenerate(id) || r.engine.retried != 1 || !waits(r.View()) {
			t.Fatalf("without an engine: %+v", r.View().Messages[1])
		}
		// It does not come up: that is no order for later.
		r.engine.set(link.Starting)
		if v := r.await("it starts", func(v View) bool { return v.Engine.Phase == link.Starting }); !waits(v) {
			t.Errorf("while it starts: %+v", v.Messages[1])
		}
		r.engine.set(link.Absent)
		if v := r.await("it is given up", absent); waits(v) || v.Messages[1].Problem == nil {
			t.Errorf("given up: %+v", v.Messages[1])
		}
		// Taken back.
		r.Regenerate(id)
		r.Stop()
		if waits(r.View()) {
			t.Error("it waits after Stop")
		}
		r.engine.set(link.Connected)
		r.await("engine", func(v View) bool { return v.CanSend })
		same(t, []string{"q", "half"}, r.View())
		// And once more, to its end.
		r.engine.set(link.Lost)
		r.await("lost", func(v View) bool { return v.Engine.Phase == link.Lost })
		r.RegeneratePublic(id)
		r.engine.set(link.Connected)
		v = r.await("the answer", func(v View) bool { return !v.Answering && v.Messages[1].Text == "whole" })
		if v.Messages[1].Of != 2 || v.Messages[1].Note != "" || r.engine.retried != 3 {
			t.Errorf("%+v", v.Messages[1])
		}
	})
}

func TestStop(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"word "}, endless: true}, {pieces: []string{"fine"}}}, func(t *testing.T, r *rig) {
		r.Send("q")
		v := r.await("text", func(v View) bool { return len(v.Messages) == 2 && v.Messages[1].Text != "" })
		if !v.Answering || v.CanSend || !v.Messages[1].Writing || !v.Strip.Running || r.Send("another") {
			t.Errorf("while it answers: %+v", v)
		}
		r.Stop()
		v = r.settled()
		if v.Messages[1].Note == "" || v.Messages[1].Problem != nil || !strings.HasPrefix(v.Messages[1].Text, "word ") || v.Strip.Phase != "Stopped" {
			t.Errorf("%+v", v.Messages[1])
		}
		// What came stays, also for the model and the next start.
		part := v.Messages[1].Text
		r.ask("go on")
		if r.engine.last().Turns[1].Text != part {
			t.Errorf("the model is told %+v", r.engine.last().Turns)
		}
		id := r.View().Chat
		r.again()
		r.Open(id)
		same(t, []string{"q", part, "go on", "fine"}, r.settled())
	})
}

// TestTimesInTheStore: the store keeps microseconds; messages that follow each
// other faster have different times all the same.
func TestTimesInTheStore(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	m := &Model{o: Options{Now: func() time.Time { now = now.Add(100 * time.Nanosecond); return now }}}
	c := &talk{}
	last := m.later(c)
	for range 30 {
		next := m.later(c)
		if next.UnixMicro() <= last.UnixMicro() {
			t.Fatalf("%v comes after %v", next, last)
		}
		last = next
	}
}

func TestRegenerateAndEdit(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"one"}}, {pieces: []string{"two"}}, {pieces: []string{"three"}}}, func(t *testing.T, r *rig) {
		v := r.ask("q")
		if !r.Regenerate(v.Messages[1].ID) {
			t.Fatal("not taken")
		}
		v = r.settled()
		same(t, []string{"q", "two"}, v)
		if v.Messages[1].Place != 2 || v.Messages[1].Of != 2 {
			t.Errorf("%+v", v.Messages[1])
		}
		r.Edit(v.Messages[0].ID, "another q")
		v = r.settled()
		same(t, []string{"another q", "three"}, v)
		if v.Title != "q" || len(r.engine.last().Turns) != 1 {
			t.Errorf("%q, %+v", v.Title, r.engine.last())
		}
		// Nothing is lost.
		id := v.Chat
		r.again()
		r.Open(id)
		v = r.settled()
		same(t, []string{"another q", "three"}, v)
		r.Branch(v.Messages[0].ID, -1)
		v = r.View()
		same(t, []string{"q", "two"}, v)
		r.Branch(v.Messages[1].ID, -1)
		same(t, []string{"q", "one"}, r.View())
		r.Branch(v.Messages[1].ID, -5)
		same(t, []string{"q", "one"}, r.View())
	})
}

func TestFailure(t *testing.T) {
	t.Parallel()
	lost := protocol.Errorf(protocol.CodeHopLost, "the connection broke").AtHop(1)
	suite(t, []script{{pieces: []string{"half"}, fail: lost}, {refuse: protocol.Errorf(protocol.CodeNoRoute, "no route")}, {pieces: []string{"whole"}}}, func(t *testing.T, r *rig) {
		v := r.ask("q")
		p := v.Messages[1].Problem
		if p == nil || v.Messages[1].Text != "half" || v.Messages[1].Note != "The answer is not complete; what has come of it is kept." || !strings.Contains(p.Text, "Computer 2") || p.Remedy == "" || !slices.Equal(p.Ways, []Way{WayAgain}) {
			t.Errorf("%+v, %+v", v.Messages[1], p)
		}
		// A part of an answer stays beside the next one; nothing does not.
		r.Regenerate(v.Messages[1].ID)
		v = r.settled()
		p = v.Messages[1].Problem
		if p == nil || v.Messages[1].Of != 2 || !slices.Equal(p.Ways, []Way{WayAgain, WayNetwork}) || r.Label(WayNetwork) != "Open Network" {
			t.Errorf("%+v, %+v", v.Messages[1], p)
		}
		r.Regenerate(v.Messages[1].ID)
		v = r.settled()
		same(t, []string{"q", "whole"}, v)
		if v.Messages[1].Of != 2 || v.Messages[1].Problem != nil {
			t.Errorf("%+v", v.Messages[1])
		}
		if log := r.log.String(); !strings.Contains(log, "hop_lost") || strings.Contains(log, "half") {
			t.Errorf("the log is\n%s", log)
		}
	})
}

func TestPrivate(t *testing.T) {
	t.Parallel()
	suite(t, []script{{refuse: protocol.Errorf(protocol.CodeNoRoute, "no route")}, {pieces: []string{"public answer"}}}, func(t *testing.T, r *rig) {
		public := r.View().Policy
		r.SetPrivate(true)
		if v := r.View(); !v.Private || v.Policy == public {
			t.Errorf("%+v", v)
		}
		v := r.ask("q")
		p := v.Messages[1].Problem
		if p == nil || !strings.Contains(p.Text, "private") || !slices.Contains(p.Ways, WayPublic) || !r.engine.last().Private || v.Strip.Kind != "Private route" {
			t.Fatalf("%+v", p)
		}
		r.RegeneratePublic(v.Messages[1].ID)
		v = r.settled()
		same(t, []string{"q", "public answer"}, v)
		if v.Private || r.engine.last().Private {
			t.Error("it is still private")
		}
	})
}

// A key of the model that is gone, or a prompt that is too long, has another way
// out than trying again.
func TestWaysOut(t *testing.T) {
	t.Parallel()
	for _, c := range protocol.Codes() {
		if len(waysOut(c)) == 0 {
			t.Errorf("%s has no way out", c)
		}
	}
	if slices.Contains(waysOut(protocol.CodeContextExceeded), WayAgain) {
		t.Error("trying again makes no prompt shorter")
	}
}

func TestDraft(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"x"}}}, func(t *testing.T, r *rig) {
		r.ask("first")
		talk := r.View().Chat
		r.SetDraft("half a thou")
		r.NewChat()
		if v := r.View(); v.Draft != "" || v.Chat == talk {
			t.Errorf("%+v", v)
		}
		r.SetDraft("an idea")
		r.again()
		// A draft comes back, the newest one first.
		v := r.await("the draft", func(v View) bool { return v.Draft != "" })
		if v.Draft != "half a thou" && v.Draft != "an idea" || len(entries(v)) != 2 {
			t.Errorf("%+v", v)
		}
		r.Open(talk)
		if v := r.settled(); v.Draft != "half a thou" {
			t.Errorf("%q", v.Draft)
		}
		r.ask("half a thought")
		if v := r.View(); v.Draft != "" {
			t.Errorf("a sent text is still a draft: %q", v.Draft)
		}
		// A chat with a draft alone is gone when the draft is.
		for _, id := range entries(r.View()) {
			if id != talk {
				r.Open(id)
			}
		}
		r.SetDraft("")
		r.again()
		if v := r.View(); len(entries(v)) != 1 {
			t.Errorf("%+v", v.Groups)
		}
	})
}

func TestDelete(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"a"}}, {pieces: []string{"b"}}, {pieces: []string{"on and "}, endless: true}}, func(t *testing.T, r *rig) {
		first := r.ask("first").Chat
		r.NewChat()
		second := r.ask("second").Chat
		r.Delete(first)
		v := r.View()
		if !slices.Equal(entries(v), []thread.ID{second}) || v.Undo == "" || v.Chat != second {
			t.Errorf("%+v", v)
		}
		r.Undo()
		if v := r.settled(); v.Chat != first || len(entries(v)) != 2 || v.Undo != "" {
			t.Errorf("%+v", v)
		}
		// One that is being answered stops, and does not come back by its last words.
		r.Send("more")
		r.await("text", func(v View) bool { return len(v.Messages) == 4 && v.Messages[3].Text != "" })
		r.Delete(first)
		if v := r.View(); v.Chat == first || !slices.Equal(entries(v), []thread.ID{second}) {
			t.Errorf("%+v", v)
		}
		r.Delete(second)
		r.again()
		if v := r.View(); len(entries(v)) != 0 || !v.NothingMade {
			t.Errorf("%+v", v.Groups)
		}
	})
}

func TestSearchAndRename(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"The Donaudampfschiff sails"}}, {pieces: []string{"b"}}}, func(t *testing.T, r *rig) {
		first := r.ask("first").Chat
		r.NewChat()
		second := r.ask("second").Chat
		r.Rename(second, "  My *own*\nname ")
		r.Rename(first, " ")
		r.Search("dampf")
		v := r.await("found", func(v View) bool { return slices.Equal(entries(v), []thread.ID{first}) })
		if !strings.Contains(v.Groups[0].Chats[0].Detail, "dampfschiff") || v.Groups[0].Title != "Found" {
			t.Errorf("%+v", v.Groups)
		}
		r.Search("own")
		v = r.await("found by its title", func(v View) bool { return slices.Equal(entries(v), []thread.ID{second}) })
		if v.Groups[0].Chats[0].Title != "My *own*" {
			t.Errorf("%+v", v.Groups)
		}
		r.Search("nowhere")
		r.await("nothing found", func(v View) bool { return v.NotFound })
		r.Search("")
		if v := r.View(); len(entries(v)) != 2 || v.NotFound {
			t.Errorf("%+v", v.Groups)
		}
	})
}

func TestCloseWhileAnswering(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"word "}, endless: true}}, func(t *testing.T, r *rig) {
		r.Send("q")
		v := r.await("text", func(v View) bool { return len(v.Messages) == 2 && v.Messages[1].Text != "" })
		r.again()
		r.Open(v.Chat)
		v = r.settled()
		if !strings.HasPrefix(v.Messages[1].Text, "word ") || !strings.Contains(v.Messages[1].Note, "window") || v.Messages[1].Writing {
			t.Errorf("%+v", v.Messages[1])
		}
	})
}

// What ends in order waits for answers, and not for ever.
func TestFinish(t *testing.T) {
	t.Parallel()
	suite(t, nil, func(t *testing.T, r *rig) {
		hold := make(chan struct{})
		r.engine.scripts = []script{{pieces: []string{"a whole answer"}, hold: hold}}
		r.Finish(t.Context()) // nothing is under way
		r.Send("q")
		r.await("the answer has begun", func(v View) bool { return v.Answering })
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		r.Finish(short)
		if v := r.View(); !v.Answering || short.Err() == nil {
			t.Errorf("it did not wait: %v", short.Err())
		}
		finished := make(chan struct{})
		go func() {
			defer close(finished)
			r.Finish(t.Context())
		}()
		close(hold)
		<-finished
		if v := r.View(); v.Answering || v.Messages[1].Text != "a whole answer" || v.Messages[1].Problem != nil {
			t.Errorf("%+v", v.Messages)
		}
	})
}

// A chat goes on answering while another one is read and asked.
func TestTwoChatsAtOnce(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	suite(t, []script{{pieces: []string{"slow"}, hold: hold}, {pieces: []string{"quick"}}}, func(t *testing.T, r *rig) {
		r.Send("first")
		first := r.View().Chat
		r.await("reading", func(v View) bool { return strings.HasPrefix(v.Strip.Phase, "Reading the prompt") })
		r.NewChat()
		same(t, []string{"second", "quick"}, r.ask("second"))
		busy := 0
		for _, e := range r.View().Groups[0].Chats {
			if e.Busy {
				busy++
			}
		}
		if busy != 1 {
			t.Errorf("%d chats are busy", busy)
		}
		r.Open(first)
		if v := r.View(); !v.Answering {
			t.Errorf("%+v", v)
		}
		r.Stop()
		if v := r.settled(); v.Messages[1].Note == "" {
			t.Errorf("%+v", v.Messages[1])
		}
	})
}

func TestSettingsOfAChat(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"x"}}}, func(t *testing.T, r *rig) {
		r.SetSystem("Be brief.")
		if p := r.SetParams(ParamTexts{Temperature: "0,5", TopP: "2", MaxTokens: "0", Seed: "-1"}); p.Temperature != "" || p.TopP == "" || p.MaxTokens == "" || p.Seed == "" {
			t.Errorf("problems %+v", p)
		}
		if p := r.SetParams(ParamTexts{Temperature: "0.5", TopP: "1", MaxTokens: "64", Seed: "4294967295"}); p != (ParamTexts{}) {
			t.Errorf("problems %+v", p)
		}
		id := r.ask("q").Chat
		got := r.engine.last()
		if got.System != "Be brief." || *got.Params.Temperature != 0.5 || *got.Params.TopP != 1 || got.Params.MaxTokens != 64 || *got.Params.Seed != 4294967295 {
			t.Errorf("asked %+v", got)
		}
		r.again()
		r.Open(id)
		if v := r.settled(); v.System != "Be brief." || v.Params != (ParamTexts{"0.5", "1", "64", "4294967295"}) {
			t.Errorf("%+v", v.Params)
		}
		r.NewChat()
		if v := r.View(); v.System != "" || v.Params != (ParamTexts{}) {
			t.Errorf("a new chat has %+v", v)
		}
	})
}

func TestExport(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"an answer"}}}, func(t *testing.T, r *rig) {
		id := r.ask("a question").Chat
		r.again() // not in memory
		for format, want := range map[ExportFormat]string{ExportMarkdown: "## You\n\na question\n\n## " + gatewaytest.ModelName + "\n\nan answer\n", ExportJSON: `"content": "an answer"`} {
			type file struct {
				name string
				data []byte
				err  error
			}
			got := make(chan file, 1)
			r.Export(id, format, func(name string, data []byte, err error) { got <- file{name, data, err} })
			f := <-got
			if f.err != nil || f.name != "chat a question."+string(format) || !strings.Contains(string(f.data), want) {
				t.Errorf("%s, %v:\n%s", f.name, f.err, f.data)
			}
		}
	})
}

// Only the end of a long chat is shown at first.
func TestWindow(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"x"}}}, func(t *testing.T, r *rig) {
		for i := range 40 {
			r.ask(fmt.Sprint("q", i))
		}
		v := r.View()
		if len(v.Messages) != windowStep || v.Older != 30 || v.Messages[0].Text != "q15" {
			t.Errorf("%d messages, %d older, the first is %q", len(v.Messages), v.Older, v.Messages[0].Text)
		}
		r.LoadOlder()
		if v := r.View(); len(v.Messages) != 80 || v.Older != 0 {
			t.Errorf("%d messages, %d older", len(v.Messages), v.Older)
		}
	})
}

func TestDamagedFileIsTold(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"x"}}}, func(t *testing.T, r *rig) {
		r.ask("q")
		r.Close()
		if err := os.WriteFile(r.file, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.open()
		v := r.View()
		if v.Notice == nil || !strings.Contains(v.Notice.Remedy, r.file+".damaged-") || len(entries(v)) != 0 {
			t.Fatalf("%+v", v.Notice)
		}
		r.DismissNotice()
		if v := r.ask("again"); v.Notice != nil || len(v.Messages) != 2 {
			t.Errorf("%+v", v.Notice)
		}
	})
}

// TestFileIsTakenAway: a file that is deleted under the window comes back with the
// next thing that is written, and is told.
func TestFileIsTakenAway(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"x"}}}, func(t *testing.T, r *rig) {
		r.ask("first")
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(r.file + suffix); err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
		}
		r.ask("second")
		r.await("it is told", func(v View) bool { return v.Notice != nil && strings.Contains(v.Notice.Text, "written again") })
		r.DismissNotice()
		r.Close()
		r.open()
		if v := r.View(); v.Notice != nil || len(entries(v)) != 1 {
			t.Errorf("%+v, %d chats", v.Notice, len(entries(v)))
		}
	})
}

// TestFileIsDamagedMeanwhile: a file that turns into nonsense under the window is
// set aside, and what the window knows is saved in another one.
func TestFileIsDamagedMeanwhile(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"x"}}}, func(t *testing.T, r *rig) {
		r.ask("first")
		for _, suffix := range []string{"", "-wal"} {
			st, err := os.Stat(r.file + suffix)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(r.file+suffix, bytes.Repeat([]byte("nonsense"), int(st.Size())/8), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		// What SQLite has in memory it does not read again: it may take some writes
		// until it sees.
		for i := 0; i < 20 && r.View().Notice == nil; i++ {
			r.ask("more")
		}
		r.await("it is told", func(v View) bool { return v.Notice != nil && strings.Contains(v.Notice.Remedy, ".damaged-") })
		r.Close()
		r.open()
		v := r.View()
		aside, err := filepath.Glob(r.file + ".damaged-*")
		if err != nil || len(aside) == 0 {
			t.Errorf("nothing is set aside: %v", err)
		}
		if len(entries(v)) != 1 || v.Notice != nil {
			t.Errorf("%d chats, %+v", len(entries(v)), v.Notice)
		}
	})
}

// TestWhatFailedIsWrittenLater: a full disk loses what is said meanwhile only when
// it is full until the end.
func TestWhatFailedIsWrittenLater(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"x"}}}, func(t *testing.T, r *rig) {
		id := r.ask("first").Chat
		full := protocol.Errorf(protocol.CodeDiskFull, "no room")
		r.disk(func(ctx context.Context, s *store.Store) error {
			return errors.Join(s.Remove(ctx, id), full) // as if it had never got there
		})
		r.await("it is told", func(v View) bool { return v.Notice != nil })
		r.SetDraft("room again")
		r.Close()
		r.open()
		if v := r.View(); v.Notice != nil || len(v.Messages) != 2 || v.Draft != "room again" {
			t.Errorf("%+v", v)
		}
	})
}

func TestNoFileCanBeHad(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"x"}}}, func(t *testing.T, r *rig) {
		r.Close()
		r.file = filepath.Join(r.file, "below a file")
		r.open()
		v := r.ask("q")
		if v.Notice == nil || v.Notice.Text == "" || len(v.Messages) != 2 || len(entries(v)) != 1 {
			t.Errorf("%+v", v)
		}
	})
}

// Neither questions, answers, prompts nor search words may come into the log.
func TestNothingSaidIsLogged(t *testing.T) {
	t.Parallel()
	suite(t, []script{{pieces: []string{"swordfish "}}, {pieces: []string{"swordfish"}, fail: gatewaytest.ErrLost}, {refuse: protocol.Errorf(protocol.CodeKVBudget, "no room")}}, func(t *testing.T, r *rig) {
		r.SetSystem("swordfish")
		r.ask("swordfish")
		r.ask("swordfish")
		r.ask("swordfish")
		r.Search("swordfish")
		r.SetDraft("swordfish")
		r.Rename(r.View().Chat, "swordfish")
		r.Close()
		if err := os.WriteFile(r.file, []byte("nonsense"), 0o600); err != nil {
			t.Fatal(err)
		}
		r.open()
		if log := r.log.String(); strings.Contains(log, "swordfish") || log == "" {
			t.Errorf("the log is\n%s", log)
		}
	})
}
