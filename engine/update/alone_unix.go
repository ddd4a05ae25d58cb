//go:build unix

package update

import "syscall"

// alone gives the installer a session of its own, so that it lives on when it
// ends this process.
func alone() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
