package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/app/chat/thread"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/desktop/instance"
	"neuron/internal/localnet"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// finishes is how long the window finishes its answers when everything ends
// (patience in app/window.go).
const finishes = 20 * time.Second

// TestAnswerUnderWay is about an answer that is being written when the engine
// dies, and about one that is when everything is told to end: the first is kept
// as far as it came, with what happened, and the second is finished.
func TestAnswerUnderWay(t *testing.T) {
	d := newDesk(t)
	model := filepath.Join(t.TempDir(), "babble.gguf")
	// Random weights say all of their 16,384 tokens alike: hardly one ends the
	// answer before the context does, seconds later.
	shape, err := synth.Preset("tiny-llama")
	if err != nil {
		t.Fatal(err)
	}
	shape.Vocab, shape.Context = 16384, 4096
	if err := synth.Write(model, shape, synth.Options{Type: gguf.TypeQ8_0}); err != nil {
		t.Fatal(err)
	}
	if err := d.net.Publish(d.ctx, model); err != nil {
		t.Fatal(err)
	}
	if _, err := d.net.StartNode(d.ctx, "node", localnet.NodeOptions{Model: model, Layers: "all"}); err != nil {
		t.Fatal(err)
	}
	desktop, err := d.net.StartDesktop(d.ctx, "desk", func(s *policy.Settings) { s.SetUp, s.Tracker = true, d.net.TrackerURL })
	if err != nil {
		t.Fatal(err)
	}
	d.data = desktop.Data
	if _, err := d.net.WaitRoute(d.ctx, "babble", time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := localnet.WaitAccess(d.ctx, desktop, time.Minute); err != nil {
		t.Fatal(err)
	}
	window := d.begin()
	d.change("the chat page is shown", func() { d.control(pageKey(t, "chat")) })

	d.sends("Say a lot")
	part := d.part("Say a lot")
	during := d.look()
	if err := d.net.Kill(desktop); err != nil {
		t.Fatal(err)
	}
	var s saidChat
	until(d.ctx, t, "the window says how the answer ended", func() bool {
		now, ok := d.said()
		if ok {
			s = now
		}
		return s.answer != nil && s.answer.State == thread.StateFailed
	})
	if a := s.answer; a.Error == nil || a.Error.Code != protocol.CodeAnswerBroken || !strings.HasPrefix(a.Text, part) {
		t.Errorf("the answer ended with %v; %d bytes of it are kept, and %d had come", a.Error, len(a.Text), len(part))
	}
	until(d.ctx, t, "the window shows it", func() bool { return differs(during, d.look()) > 10000 })
	d.settle()
	d.picture("e2e-answer-1-broken")

	// The window has another engine started, which answers again.
	until(d.ctx, t, "another engine is in the network", func() bool {
		c, err := localapi.Dial(d.data)
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.Access(d.ctx)
		return err == nil
	})
	d.sends("Say more")
	d.part("Say more")
	told := time.Now()
	if err := instance.Send(d.ctx, d.data, instance.Tray, instance.Quit); err != nil {
		t.Fatal(err)
	}
	d.ends(window, "the window")
	took := time.Since(told)
	s, ok := d.said()
	switch {
	case !ok || s.answer == nil || s.question.Text != "Say more":
		t.Errorf("the window has ended and left %+v", s)
	case s.answer.State == thread.StateComplete:
		t.Logf("the answer was finished, %d bytes in %v", len(s.answer.Text), took)
	case s.answer.State == thread.StateLost && took >= finishes:
		t.Logf("NOT TRIED: this machine took longer than %v for the answer", finishes)
	default:
		t.Errorf("after %v the answer is %s (%v)", took, s.answer.State, s.answer.Error)
	}
	d.engineEnds()
	d.quiet(window)
}

// part waits until a part of the answer to a question is saved, and returns it.
func (d *desk) part(question string) string {
	d.t.Helper()
	text := ""
	until(d.ctx, d.t, "a part of the answer is there", func() bool {
		now, ok := d.said()
		if ok && now.question != nil && now.question.Text == question && now.answer != nil && now.answer.Parent == now.question.ID {
			text = now.answer.Text
		}
		return text != ""
	})
	return text
}
