package screen

import (
	"context"
	"fmt"
	"unsafe"

	"golang.org/x/sys/windows"

	"neuron/engine/host/source"
)

var shQueryUserNotificationState = windows.NewLazySystemDLL("shell32.dll").NewProc("SHQueryUserNotificationState")

// States of QUERY_USER_NOTIFICATION_STATE.
const (
	qunsNotPresent       = 1 // locked, or a screen saver runs
	qunsBusy             = 2 // a program fills the screen, or presentation settings are on
	qunsD3DFullScreen    = 3 // a game has the screen to itself
	qunsPresentationMode = 4
	qunsApp              = 7 // a program of the store runs, since Windows 10 in a window
)

// New asks the shell, which asks itself this before it shows a notification.
func New() source.Source[bool] {
	return source.Func[bool]{From: "Windows", Ask: func(context.Context) (bool, error) {
		var state uint32
		if hr, _, _ := shQueryUserNotificationState.Call(uintptr(unsafe.Pointer(&state))); int32(hr) < 0 {
			return false, fmt.Errorf("notification state: error %#x", uint32(hr))
		}
		return fills(state)
	}}
}

func fills(state uint32) (bool, error) {
	switch state {
	case qunsBusy, qunsD3DFullScreen, qunsPresentationMode:
		return true, nil
	case 0:
		return false, source.NotTold("the Windows shell does not know")
	}
	return false, nil // qunsNotPresent, qunsApp and what may be added
}
