package idle

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/ebitengine/purego"

	"neuron/engine/host/source"
)

// New asks Core Graphics for the time since the last input of the hardware.
func New() source.Source[time.Duration] {
	load := sync.OnceValues(func() (func(int32, uint32) float64, error) {
		lib, err := purego.Dlopen("/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics", purego.RTLD_LAZY|purego.RTLD_GLOBAL)
		if err != nil {
			return nil, fmt.Errorf("core graphics: %w", err)
		}
		address, err := purego.Dlsym(lib, "CGEventSourceSecondsSinceLastEventType")
		if err != nil {
			return nil, fmt.Errorf("core graphics: %w", err)
		}
		// CFTimeInterval f(CGEventSourceStateID, CGEventType)
		var ask func(int32, uint32) float64
		purego.RegisterFunc(&ask, address)
		return ask, nil
	})
	const (
		hardware = 1          // kCGEventSourceStateHIDSystemState
		anyInput = ^uint32(0) // kCGAnyInputEventType
	)
	return source.Func[time.Duration]{From: "macOS", Ask: func(context.Context) (time.Duration, error) {
		ask, err := load()
		if err != nil {
			return 0, err
		}
		seconds := ask(hardware, anyInput)
		if !(seconds >= 0 && seconds < 1e9) {
			return 0, fmt.Errorf("an idle time of %g seconds", seconds)
		}
		return time.Duration(seconds * float64(time.Second)), nil
	}}
}
