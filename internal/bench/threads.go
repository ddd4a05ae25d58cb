package bench

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/shirou/gopsutil/v3/process"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/bench/report"
	"neuron/internal/bench/rig"
)

const (
	threadBlock  = 12              // decode steps in turn, at most
	threadTurn   = time.Second     // after which no further step of a turn begins
	threadBlocks = 4               // turns per setting and state of the machine
	settle       = 3 * time.Second // for the governor to see a change
	idleWatch    = 6 * time.Second
	busyWait     = 40 * time.Second
)

// busyLoops keeps n threads of this process busy until the returned function
// is called, which waits for their end.
func busyLoops(n int) (stop func()) {
	// The Go runtime runs only so many threads at a time.
	procs := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(procs + n)
	var on atomic.Bool
	on.Store(true)
	var w sync.WaitGroup
	for range n {
		w.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for x := uint64(1); on.Load(); {
				for range 1 << 16 {
					x = x*6364136223846793005 + 1442695040888963407
				}
			}
		})
	}
	return func() {
		on.Store(false)
		w.Wait()
		runtime.GOMAXPROCS(procs)
	}
}

// threads compares a stage that adapts its threads with ones that have a fixed
// number, on a quiet machine and beside one busy program per core; then it
// looks at what an idle stage costs and whether a host that is too busy takes
// no sessions until it is free again.
func (r *run) threads(ctx context.Context) error {
	n, err := r.network(ctx)
	if err != nil {
		return err
	}
	settings := []int{0, 1, runtime.NumCPU()} // 0 adapts
	var nodes []*rig.Node
	var routes []*rig.Route
	defer func() {
		for _, x := range routes {
			x.Close()
		}
	}()
	for _, t := range settings {
		x, err := r.node(ctx, r.model, "all", t)
		if err != nil {
			return err
		}
		nodes = append(nodes, x)
	}
	if err := r.forgetOthers(r.model, nodes...); err != nil {
		return err
	}
	for _, x := range nodes {
		route, err := n.Open(ctx, r.s.context, x)
		if err != nil {
			return err
		}
		routes = append(routes, route)
		if _, err := route.Prefill(rig.Prompt(64), 64, 1); err != nil {
			return err
		}
	}
	// The other settings' turns are foreign load to the one that adapts: on a
	// quiet machine it has to see them end first.
	if err := r.compareThreads(routes, "quiet", settle); err != nil {
		return err
	}
	stop := busyLoops(runtime.NumCPU())
	time.Sleep(settle)
	err = r.compareThreads(routes, "one busy program per core", 0)
	stop()
	if err != nil {
		return err
	}
	if err := r.idle(nodes[0]); err != nil {
		return err
	}
	return r.hostBusy(ctx, nodes[0], routes[0])
}

// compareThreads decodes with each setting in turns. The first one adapts.
// It rests for rest before each of its turns.
func (r *run) compareThreads(routes []*rig.Route, machine string, rest time.Duration) error {
	times := make([][]time.Duration, len(routes))
	for range threadBlocks {
		for i, x := range routes {
			if i == 0 {
				time.Sleep(rest)
			}
			// A setting that is slow beside other programs has turns of fewer steps.
			for began, k := time.Now(), 0; k < threadBlock && time.Since(began) < threadTurn; k++ {
				if _, err := x.Decode(1, &times[i]); err != nil {
					return err
				}
			}
		}
	}
	rate := make([]float64, len(routes))
	best := 0.0
	for i, t := range times {
		var all time.Duration
		for _, d := range t {
			all += d
		}
		rate[i] = float64(len(t)) / all.Seconds()
		if i > 0 {
			best = max(best, rate[i])
		}
	}
	note := fmt.Sprintf("tokens/s: adaptive %.1f, 1 thread %.1f, %d threads %.1f; %d turns of each", rate[0], rate[1], runtime.NumCPU(), rate[2], threadBlocks)
	r.rep.AtLeast("adaptive threads / best fixed, "+machine, rate[0]/best, 0.9, note)
	worst := report.Quantile(times[0], 1)
	r.rep.AtMost("adaptive, longest step / median, "+machine, float64(worst)/float64(report.Median(times[0])), 5, "x",
		fmt.Sprintf("median %.0f ms, longest %.0f ms of %d", report.Millis(report.Median(times[0])), report.Millis(worst), len(times[0])))
	return nil
}

// idle measures the processor time of a stage that has nothing to do.
func (r *run) idle(x *rig.Node) error {
	parent, err := process.NewProcess(int32(x.Proc.Pid()))
	if err != nil {
		return fmt.Errorf("engine process: %w", err)
	}
	children, err := parent.Children()
	if err != nil || len(children) != 1 {
		return fmt.Errorf("the engine has %d children: %w", len(children), err)
	}
	stage := int(children[0].Pid)
	time.Sleep(settle) // what follows an answer is not idling
	before, err := spent(stage)
	if err != nil {
		return err
	}
	began := time.Now()
	time.Sleep(idleWatch)
	after, err := spent(stage)
	if err != nil {
		return err
	}
	share := float64(after-before) / float64(time.Since(began))
	r.rep.AtMost("idle stage, share of a core", 100*share, 0.5, "%", "with an open session")
	return nil
}

// hostBusy overloads the machine until the node stops taking sessions, and
// waits until it takes them again.
func (r *run) hostBusy(ctx context.Context, x *rig.Node, route *rig.Route) error {
	api, err := localapi.Dial(x.Proc.Data)
	if err != nil {
		return err
	}
	defer api.Close()
	state := func() (protocol.ShardState, error) {
		s, err := api.Status(ctx)
		if err != nil || len(s.Shards) != 1 {
			return "", fmt.Errorf("status with %d shards: %w", len(s.Shards), err)
		}
		return s.Shards[0].State, nil
	}
	wait := func(want protocol.ShardState, work bool) (time.Duration, error) {
		began := time.Now()
		for time.Since(began) < busyWait {
			if work {
				if _, err := route.Decode(2, nil); err != nil {
					return 0, err
				}
			} else {
				time.Sleep(100 * time.Millisecond)
			}
			if got, err := state(); err != nil || got == want {
				return time.Since(began), err
			}
		}
		return 0, fmt.Errorf("the shard is not %s after %s", want, busyWait)
	}
	stop := busyLoops(8 * runtime.NumCPU())
	drained, err := wait(protocol.ShardDraining, true)
	stop()
	if err != nil {
		return err
	}
	back, err := wait(protocol.ShardReady, false)
	if err != nil {
		return err
	}
	r.rep.Add(report.Row{Name: "host busy: drains, and comes back", Figure: fmt.Sprintf("%.1f s", back.Seconds()), OK: true,
		Note: fmt.Sprintf("drained after %.1f s beside %d busy programs per core", drained.Seconds(), 8)})
	return nil
}
