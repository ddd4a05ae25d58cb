package network

import (
	"context"
	"fmt"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"

	"neuron/engine/host/source"
)

// Metered asks the network list manager for the cost of the connection to the
// internet (INetworkCostManager), as the settings page of Windows shows it.
func Metered() source.Source[bool] {
	return source.Func[bool]{From: "Windows", Ask: func(context.Context) (bool, error) {
		cost, err := connectionCost()
		if err != nil {
			return false, err
		}
		return metered(cost)
	}}
}

// Bits of NLM_CONNECTION_COST.
const (
	costUnrestricted  = 0x1
	costFixed         = 0x2
	costVariable      = 0x4
	costOverLimit     = 0x10000
	costRoaming       = 0x40000
	costPaidByVolume  = costFixed | costVariable | costOverLimit | costRoaming
	sFalse            = 1          // S_FALSE: COM was ready on this thread
	rpcEChangedMode   = 0x80010106 // it is, in another mode
	clsctxAll         = 0x17
	coinitMulti       = 0
	slotRelease       = 2
	slotGetCost       = 3
	regdbClassMissing = 0x80040154
)

func metered(cost uint32) (bool, error) {
	switch {
	case cost&costPaidByVolume != 0:
		return true, nil
	case cost&costUnrestricted != 0:
		return false, nil
	}
	return false, source.NotTold("Windows does not know the cost of the connection")
}

var (
	coCreateInstance = windows.NewLazySystemDLL("ole32.dll").NewProc("CoCreateInstance")

	classNetworkListManager = windows.GUID{Data1: 0xDCB00C01, Data2: 0x570F, Data3: 0x4A9B, Data4: [8]byte{0x8D, 0x69, 0x19, 0x9F, 0xDB, 0xA5, 0x72, 0x3B}}
	interfaceCostManager    = windows.GUID{Data1: 0xDCB00008, Data2: 0x570F, Data3: 0x4A9B, Data4: [8]byte{0x8D, 0x69, 0x19, 0x9F, 0xDB, 0xA5, 0x72, 0x3B}}
)

// costManager is INetworkCostManager: a pointer to its table of functions.
type costManager struct{ table *[4]uintptr }

func (m *costManager) call(slot int, args ...uintptr) uint32 {
	hr, _, _ := syscall.SyscallN(m.table[slot], append([]uintptr{uintptr(unsafe.Pointer(m))}, args...)...)
	return uint32(hr)
}

func connectionCost() (uint32, error) {
	runtime.LockOSThread() // COM is made ready per thread
	defer runtime.UnlockOSThread()
	if err := windows.CoInitializeEx(0, coinitMulti); err == nil || err == syscall.Errno(sFalse) {
		defer windows.CoUninitialize()
	} else if err != syscall.Errno(rpcEChangedMode) {
		return 0, fmt.Errorf("COM: %w", err)
	}
	var m *costManager
	hr, _, _ := coCreateInstance.Call(uintptr(unsafe.Pointer(&classNetworkListManager)), 0, clsctxAll,
		uintptr(unsafe.Pointer(&interfaceCostManager)), uintptr(unsafe.Pointer(&m)))
	if uint32(hr) == regdbClassMissing {
		return 0, source.NotTold("this Windows has no network list manager")
	}
	if int32(hr) < 0 || m == nil {
		return 0, fmt.Errorf("network list manager: error %#x", uint32(hr))
	}
	defer m.call(slotRelease)
	var cost uint32
	if hr := m.call(slotGetCost, uintptr(unsafe.Pointer(&cost)), 0); int32(hr) < 0 {
		return 0, fmt.Errorf("cost of the connection: error %#x", hr)
	}
	return cost, nil
}
