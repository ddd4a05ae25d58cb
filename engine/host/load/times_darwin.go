package load

import (
	"fmt"
	"sync"

	"github.com/ebitengine/purego"
)

// gopsutil reads these only with cgo. Prototypes are those of <mach/mach_host.h>,
// <libproc.h> and <mach/mach_time.h>.
type mach struct {
	host       uint32
	statistics func(host uint32, flavor int32, info *[4]uint32, count *uint32) int32
	rusage     func(pid, flavor int32, info *rusageInfo) int32
	nanos      float64 // per unit of mach time
}

// rusageInfo is struct rusage_info_v0; times are in units of mach time.
type rusageInfo struct {
	uuid         [16]byte
	user, system uint64
	_            [8]uint64 // wake-ups, pages, times of start and end
}

const (
	hostCPULoadInfo = 3   // ticks: user, system, idle, nice
	ticksPerSecond  = 100 // CLK_TCK
)

var theMach = sync.OnceValues(func() (*mach, error) {
	lib, err := purego.Dlopen("/usr/lib/libSystem.B.dylib", purego.RTLD_LAZY|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("libSystem: %w", err)
	}
	m := &mach{}
	var self func() uint32
	var timebase func(*[2]uint32) int32
	for name, f := range map[string]any{
		"mach_host_self": &self, "mach_timebase_info": &timebase, "host_statistics": &m.statistics, "proc_pid_rusage": &m.rusage,
	} {
		address, err := purego.Dlsym(lib, name)
		if err != nil {
			return nil, fmt.Errorf("libSystem: %w", err)
		}
		purego.RegisterFunc(f, address)
	}
	var base [2]uint32 // numerator, denominator
	if code := timebase(&base); code != 0 || base[1] == 0 {
		return nil, fmt.Errorf("mach_timebase_info: error %d", code)
	}
	m.host, m.nanos = self(), float64(base[0])/float64(base[1])
	return m, nil
})

func busyTime() (float64, error) {
	m, err := theMach()
	if err != nil {
		return 0, err
	}
	var ticks [4]uint32
	count := uint32(len(ticks))
	if code := m.statistics(m.host, hostCPULoadInfo, &ticks, &count); code != 0 {
		return 0, fmt.Errorf("host_statistics: error %d", code)
	}
	return (float64(ticks[0]) + float64(ticks[1]) + float64(ticks[3])) / ticksPerSecond, nil
}

func processTime(pid int) (float64, error) {
	m, err := theMach()
	if err != nil {
		return 0, err
	}
	var info rusageInfo
	if code := m.rusage(int32(pid), 0, &info); code != 0 {
		return 0, fmt.Errorf("times of process %d: error %d", pid, code)
	}
	return float64(info.user+info.system) * m.nanos / 1e9, nil
}
