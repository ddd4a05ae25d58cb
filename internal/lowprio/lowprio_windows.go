package lowprio

import (
	"fmt"

	"golang.org/x/sys/windows"
)

// Background mode lowers the priority of disk and memory too.
const (
	threadModeBackgroundBegin  = 0x00010000
	processModeBackgroundBegin = 0x00100000
)

var setThreadPriority = windows.NewLazySystemDLL("kernel32.dll").NewProc("SetThreadPriority")

func lowerThread() {
	// A refusal leaves the work running as it is.
	const self = ^uintptr(1) // the pseudo handle of GetCurrentThread, -2
	_, _, _ = setThreadPriority.Call(self, threadModeBackgroundBegin)
}

func lowerProcess() error {
	if err := windows.SetPriorityClass(windows.CurrentProcess(), processModeBackgroundBegin); err != nil {
		return fmt.Errorf("lower the priority: %w", err)
	}
	return nil
}
