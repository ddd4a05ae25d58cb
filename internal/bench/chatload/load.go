package chatload

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"neuron/internal/bench/report"
)

// Load is what a number of clients do at the same time. Every prompt is a text
// of its own, so that none can be answered from what is left of another one.
type Load struct {
	Chats          int // clients with short prompts
	Prompt, Answer int // tokens of a chat's request

	// Longs are further clients with a prompt of Long tokens each. With none of
	// them a chat makes one request. Otherwise it makes one after the other,
	// until the long prompts are answered or Until is over; what is under way
	// then is cut off.
	Longs, Long int
	// The first of them asks when every chat has had a token, and a further one
	// each Every, whether those before it are answered or not.
	Every time.Duration
	Until time.Duration // from the first long prompt on

	Seed uint64 // of the prompts
}

// longAnswer is how many tokens a long prompt is answered with.
const longAnswer = 8

// Figures are what the clients of a load saw. Answers that were cut off count
// as far as they came.
type Figures struct {
	Rate              float64         // tokens per second of all chats together
	First             time.Duration   // the median time to a chat's first token
	P50, P99, Longest time.Duration   // between two tokens of a chat
	Long              []time.Duration // to the first tokens of the long prompts that had one
	Asked             int             // long prompts that were sent
}

// loading is one run of a load.
type loading struct {
	c *Client
	l Load
	// ctx ends when a client failed; chatting ends when the chats have to.
	ctx, chatting  context.Context
	fail, stopChat context.CancelFunc
	begun          chan struct{} // one for each chat that had a token

	mu     sync.Mutex
	chats  []*Answer // guarded by mu, like longs and err
	longs  []*Answer
	failed error
}

// Run puts the load on the server and returns when all its clients have ended.
func (c *Client) Run(ctx context.Context, l Load) (*Figures, error) {
	x := &loading{c: c, l: l, begun: make(chan struct{}, l.Chats)}
	x.ctx, x.fail = context.WithCancel(ctx)
	defer x.fail()
	x.chatting, x.stopChat = context.WithCancel(x.ctx)
	defer x.stopChat()
	began := time.Now()
	var chats sync.WaitGroup
	for i := range l.Chats {
		chats.Go(func() { x.chat(rand.New(rand.NewPCG(l.Seed, uint64(i)))) })
	}
	asked := 0
	if l.Longs > 0 {
		asked = x.askLong()
		x.stopChat()
	}
	chats.Wait()
	took := time.Since(began)
	if err := errors.Join(x.failed, context.Cause(ctx)); err != nil {
		return nil, err
	}
	return x.figures(took, asked)
}

// chat is one client with short prompts.
func (x *loading) chat(rng *rand.Rand) {
	first := func() { x.begun <- struct{}{} }
	for x.chatting.Err() == nil {
		a, err := x.c.Stream(x.chatting, Text(rng, x.l.Prompt), x.l.Answer, first)
		x.add(x.chatting, &x.chats, a, err)
		if first = nil; x.l.Longs == 0 {
			return
		}
	}
}

// askLong sends the long prompts and returns how many; their clients have ended.
func (x *loading) askLong() int {
	for range x.l.Chats {
		select {
		case <-x.begun:
		case <-x.ctx.Done():
			return 0
		}
	}
	ctx, cancel := context.WithTimeout(x.ctx, x.l.Until)
	defer cancel()
	rng := rand.New(rand.NewPCG(x.l.Seed, 1<<32))
	var clients sync.WaitGroup
	defer clients.Wait()
	next := time.NewTicker(x.l.Every)
	defer next.Stop()
	for n := 1; ; n++ {
		prompt := Text(rng, x.l.Long)
		clients.Go(func() {
			a, err := x.c.Stream(ctx, prompt, longAnswer, nil)
			x.add(ctx, &x.longs, a, err)
		})
		if n == x.l.Longs {
			return n
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return n
		}
	}
}

// add keeps an answer. That ctx has ended is no failure of the server.
func (x *loading) add(ctx context.Context, list *[]*Answer, a *Answer, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if a != nil {
		*list = append(*list, a)
	}
	if err != nil && ctx.Err() == nil {
		x.failed = errors.Join(x.failed, err)
		x.fail()
	}
}

// figures are made when no client runs any more.
func (x *loading) figures(took time.Duration, asked int) (*Figures, error) {
	f := &Figures{Asked: asked}
	var firsts, gaps []time.Duration
	tokens := 0
	for _, a := range x.chats {
		if a.First() > 0 {
			firsts = append(firsts, a.First())
		}
		gaps = append(gaps, a.Gaps()...)
		tokens += max(a.Tokens, len(a.Pieces))
	}
	if len(gaps) == 0 {
		return nil, errors.New("no chat had two tokens")
	}
	f.Rate = float64(tokens) / took.Seconds()
	f.First = report.Median(firsts)
	f.P50, f.P99, f.Longest = report.Median(gaps), report.Quantile(gaps, 0.99), report.Quantile(gaps, 1)
	for _, a := range x.longs {
		if a.First() > 0 {
			f.Long = append(f.Long, a.First())
		}
	}
	slices.Sort(f.Long)
	return f, nil
}

// Ids from lowID on, lowIDs of them, exist in every vocabulary that is measured
// here and are no control tokens.
const (
	lowID  = 20
	lowIDs = 200
)

// Text is a random text of n tokens.
func Text(rng *rand.Rand, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(lowID + rng.IntN(lowIDs))
	}
	return out
}
