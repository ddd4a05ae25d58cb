package idle

import (
	"context"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"

	"neuron/engine/host/source"
)

var (
	getLastInputInfo = windows.NewLazySystemDLL("user32.dll").NewProc("GetLastInputInfo")
	getTickCount     = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetTickCount")
)

// lastInputInfo is LASTINPUTINFO.
type lastInputInfo struct {
	size uint32
	time uint32 // of GetTickCount
}

// New asks GetLastInputInfo. It knows the input of this process's session: a
// service, which has a session without a user, would not see any.
func New() source.Source[time.Duration] {
	return source.Func[time.Duration]{From: "Windows", Ask: func(context.Context) (time.Duration, error) {
		info := lastInputInfo{size: uint32(unsafe.Sizeof(lastInputInfo{}))}
		if ok, _, err := getLastInputInfo.Call(uintptr(unsafe.Pointer(&info))); ok == 0 {
			return 0, fmt.Errorf("last input: %w", err)
		}
		now, _, _ := getTickCount.Call()
		return since(uint32(now), info.time), nil
	}}
}
