package stopwatch

import (
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	kernel    = windows.NewLazySystemDLL("kernel32.dll")
	counter   = kernel.NewProc("QueryPerformanceCounter")
	frequency = ticksPerSecond(kernel.NewProc("QueryPerformanceFrequency"))
)

// Both calls never fail since Windows XP (Microsoft, "QueryPerformanceCounter
// function"); a frequency of 1 keeps the division whole all the same.
func ticksPerSecond(p *windows.LazyProc) uint64 {
	var n uint64
	_, _, _ = p.Call(uintptr(unsafe.Pointer(&n)))
	return max(1, n)
}

// now is monotonic time since some fixed point.
func now() time.Duration {
	var ticks uint64
	_, _, _ = counter.Call(uintptr(unsafe.Pointer(&ticks)))
	// In two parts, since the product with 1e9 would not fit 64 bits.
	sec, rest := ticks/frequency, ticks%frequency
	return time.Duration(sec*uint64(time.Second) + rest*uint64(time.Second)/frequency)
}
