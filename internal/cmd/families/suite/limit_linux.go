package suite

import "syscall"

// memoryMost bounds the address space of a child: a wrong size makes it fail instead of
// the machine. The models take some hundred MB.
const memoryMost = 12 << 30

func limitMemory() error {
	return syscall.Setrlimit(syscall.RLIMIT_AS, &syscall.Rlimit{Cur: memoryMost, Max: memoryMost})
}
