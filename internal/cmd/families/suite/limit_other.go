//go:build !linux

package suite

// limitMemory has no counterpart here: the time limit of a child bounds it.
func limitMemory() error { return nil }
