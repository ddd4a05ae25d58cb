package update

import (
	"syscall"

	"golang.org/x/sys/windows"
)

// alone gives the installer a group of its own, so that it lives on when it ends
// this process, and no console window.
func alone() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: windows.CREATE_NO_WINDOW | windows.CREATE_NEW_PROCESS_GROUP}
}
