package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/host/bus"
	"neuron/engine/host/power"
	"neuron/engine/host/source"
	"neuron/engine/policy"
)

// fake is a source that counts questions.
type fake[T any] struct {
	mu     sync.Mutex
	v      T
	err    error
	hang   bool
	asked  int
	closed bool
}

func (f *fake[T]) Read(ctx context.Context) (T, error) {
	f.mu.Lock()
	f.asked++
	v, err, hang := f.v, f.err, f.hang
	f.mu.Unlock()
	if hang {
		<-ctx.Done()
		return v, ctx.Err()
	}
	return v, err
}
func (f *fake[T]) Name() string { return "fake" }
func (f *fake[T]) Close() error {
	f.closed = true
	return nil
}

// set changes what it says, and forgets the count.
func (f *fake[T]) set(v T, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.v, f.err, f.hang = v, err, false
}

func (f *fake[T]) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.asked
	f.asked = 0
	return n
}

// bench is a Host on fakes.
type bench struct {
	*Host
	t         *testing.T
	idle      fake[time.Duration]
	power     fake[power.State]
	metered   fake[bool]
	full      fake[bool]
	processor fake[float64]
	memory    fake[float64]
	network   fake[string]
	running   []string
	looked    [][]string
}

func newBench(t *testing.T) *bench {
	b := &bench{t: t}
	b.Host = newHost(&sources{
		idle: &b.idle, battery: &b.power, metered: &b.metered, fullScreen: &b.full, processor: &b.processor, memory: &b.memory, network: &b.network,
		programs: func(_ context.Context, wanted []string) ([]string, error) {
			b.looked = append(b.looked, wanted)
			return b.running, nil
		},
		awake: power.NewAwake(bus.At("")),
	}, slog.New(slog.DiscardHandler))
	return b
}

// read is a Read after a time.
func (b *bench) read(after time.Duration, n policy.Needs) policy.System {
	time.Sleep(after)
	return b.Read(b.t.Context(), n)
}

var everything = policy.Needs{Idle: true, Battery: true, Metered: true, FullScreen: true, Processor: true, Memory: true, Apps: []string{"game"}, Fast: true}

func TestOnlyWhatIsNeededIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.idle.v, b.power.v, b.processor.v, b.running = time.Minute, power.State{Battery: true, OnBattery: true}, 12.5, []string{"game"}
		x := b.read(0, policy.Needs{})
		if x.Idle.Asked || x.OnBattery.Asked || x.Apps.Asked || x.OtherPercent.Asked || b.idle.count()+b.power.count()+b.memory.count() != 0 || len(b.looked) != 0 {
			t.Errorf("nothing is needed: %+v", x)
		}
		x = b.read(0, everything)
		if x.Idle != policy.Tell(time.Minute) || x.OnBattery != policy.Tell(true) || x.Metered != policy.Tell(false) || x.FullScreen != policy.Tell(false) ||
			x.OtherPercent != policy.Tell(12.5) || x.Pressure != policy.Tell(0.0) || !x.Apps.Known || !slices.Equal(x.Apps.Value, []string{"game"}) || !x.At.Equal(time.Now()) {
			t.Errorf("%+v", x)
		}
		x = b.read(time.Second, policy.Needs{Battery: true})
		if x.Idle.Asked || x.Apps.Asked || !x.OnBattery.Known {
			t.Errorf("what is needed no more is told: %+v", x)
		}
		if b.power.count() != 1 {
			t.Error("the battery is asked again within a second")
		}
		// A rule that comes into force has its answer at once.
		if x := b.read(0, everything); !x.Idle.Known || b.idle.count() != 2 {
			t.Errorf("%+v", x.Idle)
		}
		if err := b.Close(); err != nil || !b.idle.closed || !b.network.closed {
			t.Error("not closed", err)
		}
	})
}

// TestHowOftenIsAsked counts questions of ten minutes with a Read every 200 ms.
func TestHowOftenIsAsked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		minutes := func(n policy.Needs) {
			for range 3000 {
				b.read(200*time.Millisecond, n)
			}
		}
		minutes(everything)
		for what, n := range map[string]int{"idle": b.idle.count(), "full screen": b.full.count(), "processor": b.processor.count()} {
			if n < 290 || n > 400 {
				t.Errorf("%s was asked %d times in ten minutes", what, n)
			}
		}
		for what, n := range map[string]int{"battery": b.power.count(), "metered": b.metered.count(), "memory": b.memory.count(), "programs": len(b.looked)} {
			if n < 58 || n > 66 {
				t.Errorf("%s was asked %d times in ten minutes", what, n)
			}
		}
		calm := everything
		calm.Fast = false
		minutes(calm)
		if n := b.idle.count(); n < 55 || n > 66 {
			t.Errorf("without haste, idle was asked %d times in ten minutes", n)
		}
	})
}

func TestASourceThatFailsIsAskedLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		need := policy.Needs{Idle: true, Fast: true}
		b.idle.set(0, errors.New("lost"))
		if x := b.read(0, need); !x.Idle.Asked || x.Idle.Known {
			t.Errorf("%+v", x.Idle)
		}
		if a := b.Answers()[0]; a.Signal != policy.UnknownIdle || a.Failed != "lost" || a.From != "" {
			t.Errorf("%+v", a)
		}
		b.idle.count()
		for range 300 { // ten minutes
			b.read(2*time.Second, need)
		}
		if n := b.idle.count(); n < 5 || n > 9 {
			t.Errorf("a broken source was asked %d times in ten minutes", n)
		}
		b.idle.set(time.Hour, nil)
		var x policy.System
		for range 62 { // two minutes
			x = b.read(2*time.Second, need)
		}
		if !x.Idle.Known || x.Idle.Value != time.Hour {
			t.Errorf("it answers again: %+v", x.Idle)
		}
		if a := b.Answers()[0]; a.Failed != "" || a.From != "fake" {
			t.Errorf("%+v", a)
		}
	})
}

// TestAHungSourceHoldsUpNobody: the others' answers are there, within the limit.
func TestAHungSourceHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.full.hang, b.metered.hang = true, true
		b.idle.v = time.Hour
		began := time.Now()
		x := b.read(0, everything)
		if d := time.Since(began); d > limit {
			t.Errorf("took %s", d)
		}
		if !x.Idle.Known || x.FullScreen.Known || !x.FullScreen.Asked || x.Metered.Known {
			t.Errorf("%+v", x)
		}
		began = time.Now()
		b.read(2*time.Second, everything)
		if d := time.Since(began); d > 2*time.Second {
			t.Errorf("the next one took %s too", d-2*time.Second)
		}
	})
}

// TestAfterSleepAllIsAskedAnew: what was known before is of no use.
func TestAfterSleepAllIsAskedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.metered.set(false, errors.New("lost"))
		b.read(0, everything)
		b.power.count()
		b.power.set(power.State{Battery: true, OnBattery: true}, nil)
		b.metered.set(true, nil)
		x := b.read(31*time.Second, everything)
		if x.OnBattery != policy.Tell(true) || x.Metered != policy.Tell(true) {
			t.Errorf("%+v", x)
		}
		// The clock is set back: the next question must not wait for the old time.
		b.Host.looked = b.Host.looked.Add(time.Hour)
		b.metered.count()
		if b.read(0, everything); b.metered.count() != 1 {
			t.Error("not asked after the clock was set back")
		}
	})
}

func TestAnotherListOfProgramsIsAnotherQuestion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		need := policy.Needs{Apps: []string{"a"}}
		b.read(0, need)
		b.read(time.Second, need)
		need.Apps = []string{"a", "b"}
		b.read(0, need)
		want := [][]string{{"a"}, {"a", "b"}}
		if !slices.EqualFunc(b.looked, want, slices.Equal) {
			t.Errorf("%v", b.looked)
		}
	})
}

func TestKeepAwakeWhereThereIsNoSuchThing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	if err := b.KeepAwake(t.Context(), true); err != nil {
		t.Error(err)
	}
	if err := b.KeepAwake(t.Context(), false); err != nil {
		t.Error(err)
	}
}

// TestThisComputer asks all the real sources of the machine that runs the test:
// each answers or does not tell, in time.
func TestThisComputer(t *testing.T) {
	h := Open(func() []int { return nil }, slog.New(slog.DiscardHandler))
	defer h.Close()
	began := time.Now()
	x := h.Read(t.Context(), everything)
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("took %s", d)
	}
	if !x.OtherPercent.Known || !x.Pressure.Known || !x.Apps.Known || !x.Idle.Asked || !x.OnBattery.Asked || !x.Metered.Asked || !x.FullScreen.Asked {
		t.Errorf("%+v", x)
	}
	for _, a := range h.Answers() {
		t.Logf("%s: from %q, %s", a.Signal, a.From, a.Failed)
	}
	if _, err := h.Network().Read(t.Context()); err != nil && !errors.Is(err, source.ErrNotTold) {
		t.Error(err)
	}
}
