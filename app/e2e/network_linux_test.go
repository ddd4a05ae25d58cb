package e2e

import (
	"image"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"neuron/app/chat/thread"
	"neuron/engine/accounts"
	"neuron/engine/cli/apiclient"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/localnet"
)

// The bundled model, which two other computers hold.
const (
	guideName = "guide-q8_0"
	lower     = "0-4"
	upper     = "4-8"
)

var guideFile = filepath.Join("..", "..", "assets", "model", guideName+".gguf")

// TestSecondDay is the story of a computer in a network: a question to others'
// computers, a pause by the tray, and credit for the work of its own layers.
func TestSecondDay(t *testing.T) {
	d := newDesk(t, "--credit", "required", "--starting-credit", "1000")
	panel := d.newPanel()
	guide, err := filepath.Abs(guideFile)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.net.Publish(d.ctx, guide); err != nil {
		t.Fatal(err)
	}
	var nodes []*localnet.Node
	for _, layers := range []string{lower, upper} {
		n, err := d.net.StartNode(d.ctx, "node-"+layers, localnet.NodeOptions{Model: guide, Layers: layers})
		if err != nil {
			t.Fatal(err)
		}
		nodes = append(nodes, n)
	}
	// The engine is set up, and does not share yet. What else the machine of the
	// test does is no reason to pause.
	desktop, err := d.net.StartDesktop(d.ctx, "desk", func(s *policy.Settings) {
		s.SetUp, s.Tracker, s.Model, s.Layers = true, d.net.TrackerURL, guide, lower
		s.Rules = policy.Rules{IdleMinutes: s.Rules.IdleMinutes, OnBattery: true, OnMetered: true, Apps: []string{}}
	})
	if err != nil {
		t.Fatal(err)
	}
	d.data = desktop.Data
	if err := d.net.WaitCovered(d.ctx, guideName, 1, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := localnet.WaitAccess(d.ctx, desktop, time.Minute); err != nil {
		t.Fatal(err)
	}
	c := d.engine()
	until(d.ctx, t, "this computer has an account", func() bool { return balance(d, c) > 0 })

	window := d.start()
	d.window(d.ctx, "Neuron")
	until(d.ctx, t, "the first frame", func() bool { return strings.Contains(d.log(), "window shown") })
	until(d.ctx, t, "something is drawn", func() bool { return colors(d.look()) > 20 })
	d.settle()
	panel.registers()

	d.ask("What is Neuron?", nodes)
	d.pause(panel, c)
	d.earn(c, nodes)

	d.control('q')
	d.ends(window, "the window")
	d.engineEnds()
	d.quiet(window)
}

// balance is all that this computer's owner has, in micro-credits; 0 while there
// is no account.
func balance(d *desk, c *localapi.Client) (n int64) {
	a, err := c.Account(d.ctx)
	if err != nil {
		return 0
	}
	for _, b := range a.Balances {
		n += b.Micros
	}
	return n
}

// ask opens the chat page and asks a question there.
func (d *desk) ask(question string, nodes []*localnet.Node) {
	d.t.Helper()
	d.change("the chat page is shown", func() { d.control(pageKey(d.t, "chat")) })
	d.askHere(question, nodes)
}

// askHere asks a question on the chat page, by the keyboard, and reads the answer
// of the computers that hold the model.
func (d *desk) askHere(question string, nodes []*localnet.Node) {
	d.t.Helper()
	typed := d.sends(question)
	var s saidChat
	until(d.ctx, d.t, "the answer is there", func() bool {
		now, ok := d.said()
		if ok {
			s = now
		}
		return s.answer != nil && s.answer.State != thread.StateLost
	})
	// Two texts and the strip with the route are far more than a caret.
	until(d.ctx, d.t, "the window shows the answer", func() bool { return differs(typed, d.look()) > 5000 })
	d.settle()
	d.picture("e2e-chat-2-answer")
	// What the window shows of it can be copied, and is the answer.
	until(d.ctx, d.t, "the answer is on the clipboard", func() bool {
		d.press(d.keys['c'].code, keyCtrl, keyShift)
		return d.clipboard() == s.answer.Text
	})
	if s.question.Text != question || s.draft != "" || s.question.ID != s.answer.Parent {
		d.t.Errorf("asked %q, with the draft %q left", s.question.Text, s.draft)
	}
	if a := s.answer; a.State != thread.StateComplete || !strings.Contains(a.Text, "Neuron") || a.Model != guideName || a.Error != nil {
		d.t.Fatalf("the answer of %q is %s (%v): %q", a.Model, a.State, a.Error, a.Text)
	}
	d.t.Logf("the answer: %q", s.answer.Text)
	if s.answer.Stats == nil || len(s.answer.Stats.Hops) != len(nodes) {
		d.t.Fatalf("figures of the answer: %+v", s.answer.Stats)
	}
	for i, h := range s.answer.Stats.Hops {
		if string(h.Node) != nodes[i].ID || h.Use.String() != nodes[i].Layers {
			d.t.Errorf("hop %d is %s with %s, want %s with %s", i, h.Node, h.Use, nodes[i].ID, nodes[i].Layers)
		}
	}
}

// sends types a question on the chat page and sends it; it returns the screen with
// the question that is typed.
func (d *desk) sends(question string) (typed *image.NRGBA) {
	d.t.Helper()
	d.change("the question is typed", func() { d.text(question) })
	until(d.ctx, d.t, "the question is kept as a draft", func() bool {
		now, ok := d.said()
		return ok && now.draft == question
	})
	d.picture("e2e-chat-1-question")
	typed = d.look()
	// Enter does nothing until the page knows a model; then the field is empty, and
	// it does nothing again.
	last := time.Time{}
	until(d.ctx, d.t, "the question is asked", func() bool {
		if time.Since(last) > time.Second {
			last = time.Now()
			d.key(keyReturn)
		}
		now, ok := d.said()
		return ok && now.question != nil && now.question.Text == question
	})
	return typed
}

// pause turns sharing on, pauses it and goes on, all of it in the tray's menu.
func (d *desk) pause(p *panel, c *localapi.Client) {
	d.t.Helper()
	d.shares(c, protocol.SharingOff, protocol.SharingUserOff)
	p.click("Share this computer")
	d.shares(c, protocol.SharingOn, "")
	before := time.Now()
	p.click("For 1 hour")
	sharing := d.shares(c, protocol.SharingPaused, protocol.SharingUserPause)
	if u := sharing.Until; u == nil || u.Before(before.Add(time.Hour-time.Second)) || u.After(time.Now().Add(time.Hour+time.Second)) {
		d.t.Errorf("an hour from %s is until %v", before, u)
	}
	if s := d.settings(c); !s.Share || s.Pause.Until.IsZero() || s.Pause.UntilResumed {
		d.t.Errorf("the settings of the pause: %+v", s)
	}
	p.says("Paused by you until ")
	d.change("the pause is shown", func() { d.control(pageKey(d.t, "share")) })
	d.picture("e2e-tray-pause")
	p.click("Resume")
	d.shares(c, protocol.SharingOn, "")
}

// shares waits until this computer shares, or does not, for a reason.
func (d *desk) shares(c *localapi.Client, state protocol.SharingState, reason protocol.SharingReason) *localapi.Sharing {
	d.t.Helper()
	var now *localapi.Sharing
	until(d.ctx, d.t, "sharing is "+string(state)+" "+string(reason), func() bool {
		s, err := c.Status(d.ctx)
		if err != nil {
			return false
		}
		now = s.Policy
		return now != nil && now.State == state && now.Reason == reason
	})
	return now
}

// earningsAt is where a new window's earnings page has what was earned: the cards
// but the first, which is what there is to spend, and the chart.
var earningsAt = image.Rect(467, 104, 1076, 595)

// earn lets another user's questions go through this computer's layers, and
// looks for the credit.
func (d *desk) earn(c *localapi.Client, nodes []*localnet.Node) {
	d.t.Helper()
	d.change("the earnings are shown", func() { d.control(pageKey(d.t, "earnings")) })
	d.rest()
	d.picture("e2e-earnings-1-before")
	before := crop(d.look(), earningsAt)
	if days := d.earned(c); len(days) != 0 {
		d.t.Errorf("earned before there was any work: %+v", days)
	}
	until(d.ctx, d.t, "this computer holds its layers", func() bool {
		s, err := c.Status(d.ctx)
		return err == nil && len(s.Shards) == 1 && s.Shards[0].State == protocol.ShardReady && s.Shards[0].Range.String() == lower
	})
	// Nobody else has them from now on.
	if err := d.net.Forget(nodes[0].Proc); err != nil {
		d.t.Fatal(err)
	}
	if err := d.net.WaitCovered(d.ctx, guideName, 1, time.Minute); err != nil {
		d.t.Fatal(err)
	}
	gateway, err := d.net.StartGateway(d.ctx, "payer", nil)
	if err != nil {
		d.t.Fatal(err)
	}
	end, err := localnet.Endpoint(gateway)
	if err != nil {
		d.t.Fatal(err)
	}
	client := localnet.Client(end)
	for range 3 {
		d.asksByAPI(client)
	}
	var days []accounts.Earning
	until(d.ctx, d.t, "the receipts of whole answers are paid", func() bool {
		days = d.earned(c)
		return slices.ContainsFunc(days, func(e accounts.Earning) bool { return e.Prefill > 0 && e.Decode > 0 })
	})
	for _, e := range days {
		if e.ModelName != guideName || e.Range == nil || e.Range.String() != lower || e.Amount.Micros <= 0 {
			d.t.Errorf("earned with %+v", e)
		}
	}
	s, err := c.Status(d.ctx)
	if err != nil {
		d.t.Fatal(err)
	}
	if s.Receipts.Finished == 0 || s.Receipts.Refused != 0 {
		d.t.Errorf("receipts: %+v", s.Receipts)
	}
	d.t.Logf("earned: %+v", days)
	d.change("another page is shown", func() { d.control(pageKey(d.t, "share")) })
	d.change("the earnings are shown again", func() { d.control(pageKey(d.t, "earnings")) })
	until(d.ctx, d.t, "the totals and the chart show what was earned", func() bool {
		return differs(before, crop(d.look(), earningsAt)) > 300
	})
	d.rest()
	d.picture("e2e-earnings-2-after")
}

// earned is what came in by day.
func (d *desk) earned(c *localapi.Client) []accounts.Earning {
	d.t.Helper()
	e, err := c.Earnings(d.ctx, accounts.Query{})
	if err != nil {
		d.t.Fatal(err)
	}
	return e.Earnings
}

// asksByAPI asks a question as a program of another user does. A new user's
// gateway has credit once its node has an owner, and a route once the tracker
// has told it.
func (d *desk) asksByAPI(client *apiclient.Client) {
	d.t.Helper()
	for {
		a, err := client.Chat(d.ctx, apiclient.ChatRequest{
			Model: guideName, Messages: []apiclient.Message{{Role: "user", Content: "Tell me of nodes."}}, MaxTokens: 30, IgnoreEOS: true,
		}, nil)
		if err == nil && a.Text != "" {
			return
		}
		select {
		case <-d.ctx.Done():
			d.t.Fatalf("another user gets no answer: %v", err)
		case <-time.After(250 * time.Millisecond): // polling another process, bounded
		}
	}
}
