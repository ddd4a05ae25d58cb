// Package interop has tests only: our swarm against BitTorrent clients by
// others, transmission-daemon and aria2c, as real processes on the loopback
// network. They are skipped, and say so, where the programs are missing.
package interop
