//go:build !unix || darwin

package main

// haveDisplay has nothing to ask here.
func haveDisplay() error { return nil }
