package notify

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

// What fyne.io/systray 1.12.2 makes for its icon: a top-level window of this
// class, and this number of the icon. A test in tray/icon holds both against the
// library's source.
const (
	trayClass = "SystrayClass"
	trayIcon  = 100
)

// Values of shellapi.h.
const (
	nimModify            = 1
	nifInfo              = 0x10
	niifInfo             = 1
	niifRespectQuietTime = 0x80
)

// notifyIconData is NOTIFYICONDATAW.
type notifyIconData struct {
	size             uint32
	window           windows.HWND
	id               uint32
	flags            uint32
	callback         uint32
	icon             windows.Handle
	tip              [128]uint16
	state, stateMask uint32
	info             [256]uint16
	timeout          uint32
	title            [64]uint16
	infoFlags        uint32
	item             windows.GUID
	balloon          windows.Handle
}

var (
	user32          = windows.NewLazySystemDLL("user32.dll")
	findWindowEx    = user32.NewProc("FindWindowExW")
	shellNotifyIcon = windows.NewLazySystemDLL("shell32.dll").NewProc("Shell_NotifyIconW")
)

// show changes the tray icon's balloon and nothing else of it. Windows shows one
// balloon of an icon at a time, and keeps quiet in its quiet hours.
func show(_ context.Context, _, title, text string, _ uint32) (uint32, error) {
	window, err := ownWindow(trayClass)
	if err != nil {
		return 0, err
	}
	d := notifyIconData{window: window, id: trayIcon, flags: nifInfo, infoFlags: niifInfo | niifRespectQuietTime}
	d.size = uint32(unsafe.Sizeof(d))
	put(d.info[:], text)
	put(d.title[:], title)
	if ok, _, err := shellNotifyIcon.Call(nimModify, uintptr(unsafe.Pointer(&d))); ok == 0 {
		return 0, fmt.Errorf("the notification area has not taken it: %w", err)
	}
	return 1, nil
}

// ownWindow is this process's top-level window of a class.
func ownWindow(class string) (windows.HWND, error) {
	name, err := windows.UTF16PtrFromString(class)
	if err != nil {
		return 0, err
	}
	var after uintptr
	for {
		after, _, _ = findWindowEx.Call(0, after, uintptr(unsafe.Pointer(name)), 0)
		if after == 0 {
			return 0, errors.New("this process has no tray icon")
		}
		var process uint32
		if _, err := windows.GetWindowThreadProcessId(windows.HWND(after), &process); err == nil && process == windows.GetCurrentProcessId() {
			return windows.HWND(after), nil
		}
	}
}

// put writes a text with its final zero, cut between characters where it is too
// long.
func put(to []uint16, text string) {
	n := 0
	for _, r := range text {
		u := utf16.AppendRune(nil, r)
		if r == 0 || n+len(u) >= len(to) {
			break
		}
		n += copy(to[n:], u)
	}
	to[n] = 0
}
