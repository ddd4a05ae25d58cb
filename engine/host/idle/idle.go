// Package idle tells how long nobody has touched this computer. engine/host
// imports it; it knows no rules. What each system answers with stands in the
// files idle_linux.go, idle_windows.go, idle_darwin.go and idle_other.go.
package idle
