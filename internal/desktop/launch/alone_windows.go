package launch

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// alone gives a program a console without a window, which its own children
// inherit: without one, each of them would open a window. HideWindow would hide
// the first window of Neuron's window, too.
func alone() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP}
}
