//go:build !windows

package syserr_test

import "syscall"

var full = []error{syscall.ENOSPC, syscall.EDQUOT}
