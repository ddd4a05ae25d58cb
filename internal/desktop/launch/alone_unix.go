//go:build unix

package launch

import "syscall"

// alone gives a program a session of its own: the end of a terminal, or a
// signal to our group, is not its end.
func alone() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
