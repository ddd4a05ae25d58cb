package load

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// machine is a computer with four cores and a clock.
type machine struct {
	busy float64
	used map[int]float64
	own  []int
	fail error
}

func (m *machine) processor() *processor {
	return &processor{
		own: func() []int { return slices.Clone(m.own) }, wall: time.Now, cores: 4,
		system: func() (float64, error) { return m.busy, m.fail },
		process: func(pid int) (float64, error) {
			v, ok := m.used[pid]
			if !ok {
				return 0, errors.New("ended")
			}
			return v, nil
		},
	}
}

func TestShareOfOtherPrograms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		self := os.Getpid()
		m := &machine{busy: 100, used: map[int]float64{self: 10, 7: 5}, own: []int{7}}
		p := m.processor()
		step := func(d time.Duration, others float64, ours map[int]float64, want float64, what string) {
			t.Helper()
			time.Sleep(d)
			m.busy += others
			for pid, n := range ours {
				m.busy += n
				m.used[pid] += n
			}
			got, err := p.Read(t.Context())
			if err != nil || math.Abs(got-want) > 0.01 {
				t.Errorf("%s: %.2f, %v; want %.2f", what, got, err, want)
			}
		}
		step(0, 0, nil, 0, "the first")
		step(2*time.Second, 2, map[int]float64{self: 1, 7: 4}, 25, "two of eight core seconds are others'")
		step(100*time.Millisecond, 5, nil, 25, "too soon to say something new")
		step(1900*time.Millisecond, 0, map[int]float64{7: 3}, 62.5, "the rest of it")
		m.own, m.used[9] = []int{7, 9}, 0
		step(2*time.Second, 0, map[int]float64{9: 6, 7: 1}, 0, "a child that has begun")
		delete(m.used, 9)
		step(2*time.Second, 1, nil, 12.5, "a child that has ended")
		step(2*time.Second, 100, nil, 100, "more than there is")
		m.busy -= 50
		step(2*time.Second, 0, nil, 0, "a count that goes back")

		m.fail = errors.New("no")
		time.Sleep(2 * time.Second)
		if _, err := p.Read(t.Context()); err == nil {
			t.Error("a failure is told as an answer")
		}
		m.fail = nil
		step(time.Hour, 3000, nil, 0, "begins anew after a failure")
	})
}

func TestTheFirstAnswerEndsWithItsContext(t *testing.T) {
	t.Parallel()
	m := &machine{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.processor().Read(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestOurOwnLoadIsNotForeign keeps one real core busy.
func TestOurOwnLoadIsNotForeign(t *testing.T) {
	p := Processor(func() []int { return nil })
	if _, err := p.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	before, err := processTime(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	began, x := time.Now(), 1.0
	for time.Since(began) < 500*time.Millisecond {
		x = math.Sqrt(x + 1)
	}
	after, err := processTime(os.Getpid())
	if err != nil || x <= 0 {
		t.Fatal(err)
	}
	got, err := p.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// What others used meanwhile is unknown, but all but our part is an upper
	// bound for it.
	all := time.Since(began).Seconds() * float64(runtime.NumCPU())
	if most := 100*(all-(after-before))/all + 10; got > most {
		t.Errorf("%.0f %% are others', at most %.0f are possible", got, most)
	}
}

// TestRunningPrograms looks for the program of this test among all real ones.
func TestRunningPrograms(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self := strings.ToLower(filepath.Base(exe))
	got, err := NewPrograms(strings.ToLower).Running(t.Context(), []string{"no-such-program", self})
	if err != nil || !slices.Equal(got, []string{self}) {
		t.Errorf("%v, %v; want %s", got, err, self)
	}
}

func TestNamesAreRememberedForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		names := map[int32]string{1: "Init", 2: "Game", 3: "shell"}
		asked := 0
		p := &Programs{
			key: strings.ToLower, now: time.Now,
			list: func(context.Context) ([]int32, error) {
				return []int32{1, 2, 3, 4}, nil // 4 has ended meanwhile
			},
			name: func(_ context.Context, pid int32) (string, error) {
				asked++
				if n, ok := names[pid]; ok {
					return n, nil
				}
				return "", errors.New("ended")
			},
		}
		look := func(want ...string) {
			t.Helper()
			if got, err := p.Running(t.Context(), []string{"game", "film"}); err != nil || !slices.Equal(got, want) {
				t.Errorf("%v, %v; want %v", got, err, want)
			}
		}
		look("game")
		if asked != 4 {
			t.Errorf("asked %d times", asked)
		}
		names[3] = "Film" // a shell that has become another program
		time.Sleep(10 * time.Second)
		look("game")
		if asked != 5 { // 4 again
			t.Errorf("asked %d times", asked)
		}
		time.Sleep(time.Minute)
		look("game", "film")
		if asked != 9 {
			t.Errorf("asked %d times", asked)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		time.Sleep(2 * time.Minute)
		if _, err := p.Running(ctx, []string{"game"}); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		p.list = func(context.Context) ([]int32, error) { return nil, errors.New("no") }
		if _, err := p.Running(t.Context(), []string{"game"}); err == nil {
			t.Error("a failure is told as an answer")
		}
	})
}

func BenchmarkRunning(b *testing.B) {
	p := NewPrograms(strings.ToLower)
	for b.Loop() {
		if _, err := p.Running(b.Context(), []string{"game"}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkProcessor(b *testing.B) {
	p := Processor(func() []int { return []int{1} }).(*processor)
	p.at = time.Unix(1, 0)
	for b.Loop() {
		if err := p.look(); err != nil {
			b.Fatal(err)
		}
	}
}
