package power

import (
	"context"
	"fmt"
	"runtime"
)

var setThreadExecutionState = kernel32.NewProc("SetThreadExecutionState")

const (
	esContinuous     = 0x80000000
	esSystemRequired = 0x00000001
)

// NewAwake uses SetThreadExecutionState. The state is that of a thread, and ends
// with it: one goroutine keeps a thread for as long as it is on.
func NewAwake() *Awake {
	return &Awake{hold: func(context.Context) (func() error, error) {
		stop, done, begun := make(chan struct{}), make(chan struct{}), make(chan error)
		go func() {
			defer close(done)
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			if was, _, err := setThreadExecutionState.Call(esContinuous | esSystemRequired); was == 0 {
				begun <- fmt.Errorf("staying awake: %w", err)
				return
			}
			begun <- nil
			<-stop
			setThreadExecutionState.Call(esContinuous)
		}()
		if err := <-begun; err != nil {
			<-done
			return nil, err
		}
		return func() error {
			close(stop)
			<-done
			return nil
		}, nil
	}}
}
