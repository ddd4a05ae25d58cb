package power

import (
	"context"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"neuron/engine/host/source"
)

var (
	kernel32             = windows.NewLazySystemDLL("kernel32.dll")
	getSystemPowerStatus = kernel32.NewProc("GetSystemPowerStatus")
)

// systemPowerStatus is SYSTEM_POWER_STATUS.
type systemPowerStatus struct {
	acLineStatus       byte // 0 offline, 1 online, 255 unknown
	batteryFlag        byte // bits: 8 charging, 128 no battery; 255 unknown
	batteryLifePercent byte // 255 unknown
	systemStatusFlag   byte
	batteryLifeTime    uint32
	batteryFullTime    uint32
}

// Battery asks GetSystemPowerStatus.
func Battery() source.Source[State] {
	return source.Func[State]{From: "Windows", Ask: func(context.Context) (State, error) {
		var p systemPowerStatus
		if ok, _, err := getSystemPowerStatus.Call(uintptr(unsafe.Pointer(&p))); ok == 0 {
			return State{}, fmt.Errorf("power status: %w", err)
		}
		return p.state()
	}}
}

func (p systemPowerStatus) state() (State, error) {
	if p.acLineStatus > 1 {
		return State{}, source.NotTold("Windows does not know the power supply")
	}
	known := p.batteryFlag != 255
	return State{
		Battery:   known && p.batteryFlag&128 == 0,
		OnBattery: p.acLineStatus == 0,
		Charging:  known && p.batteryFlag&8 != 0,
		Percent:   percent(int(p.batteryLifePercent)),
	}, nil
}
