//go:build !linux

package icon

func guard(run func()) { run() }
