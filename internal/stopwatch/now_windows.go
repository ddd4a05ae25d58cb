package stopwatch

import (
	"math/bits"
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
	// The product does not fit 64 bits after a few minutes at 10 MHz or more.
	hi, lo := bits.Mul64(ticks%(frequency<<20), uint64(time.Second))
	if hi >= frequency {
		return 0
	}
	ns, _ := bits.Div64(hi, lo, frequency)
	return time.Duration(ns)
}
