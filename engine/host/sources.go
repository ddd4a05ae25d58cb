package host

import (
	"context"
	"errors"
	"time"

	"neuron/engine/host/load"
	"neuron/engine/host/power"
	"neuron/engine/host/source"
	"neuron/engine/policy"
	"neuron/engine/probe"
)

// sources are what can be asked on this computer. Those that it does not have
// answer with source.ErrNotTold.
type sources struct {
	idle       source.Source[time.Duration]
	battery    source.Source[power.State]
	metered    source.Source[bool]
	fullScreen source.Source[bool]
	processor  source.Source[float64] // percent of all that others' programs use
	memory     source.Source[float64] // pressure
	// programs are those of the wanted ones, by policy.ProgramName, that run.
	programs func(ctx context.Context, wanted []string) ([]string, error)
	network  source.Source[string]
	awake    *power.Awake

	connections []interface{ Close() error }
}

// common are the sources that are the same on all systems.
func common(own func() []int) sources {
	return sources{
		processor: load.Processor(own),
		memory: source.Func[float64]{From: "memory", Ask: func(context.Context) (float64, error) {
			m, err := probe.ReadMemory()
			return m.Pressure, err
		}},
		programs: load.NewPrograms(policy.ProgramName).Running,
	}
}

func (s *sources) close() error {
	errs := []error{s.awake.Close(), s.idle.Close(), s.battery.Close(), s.metered.Close(), s.fullScreen.Close(), s.processor.Close(), s.memory.Close(), s.network.Close()}
	for _, c := range s.connections {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
