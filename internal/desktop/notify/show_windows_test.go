package notify

import (
	"runtime"
	"strings"
	"testing"
	"unicode/utf16"
	"unsafe"

	"golang.org/x/sys/windows"
)

// TestBalloon shows one on an icon as the tray's library makes it. Wine has a
// notification area only while its explorer runs.
func TestBalloon(t *testing.T) {
	if _, err := show(t.Context(), "Neuron", "title", "text", 0); err == nil {
		t.Fatal("a balloon without an icon")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	class, err := windows.UTF16PtrFromString(trayClass)
	if err != nil {
		t.Fatal(err)
	}
	wc := struct {
		size, style                        uint32
		proc                               uintptr
		clsExtra, wndExtra                 int32
		instance, icon, cursor, background windows.Handle
		menu, name                         *uint16
		small                              windows.Handle
	}{proc: user32.NewProc("DefWindowProcW").Addr(), name: class}
	wc.size = uint32(unsafe.Sizeof(wc))
	if a, _, err := user32.NewProc("RegisterClassExW").Call(uintptr(unsafe.Pointer(&wc))); a == 0 {
		t.Fatal(err)
	}
	window, _, err := user32.NewProc("CreateWindowExW").Call(0, uintptr(unsafe.Pointer(class)), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	if window == 0 {
		t.Fatal(err)
	}
	d := notifyIconData{window: windows.HWND(window), id: trayIcon}
	d.size = uint32(unsafe.Sizeof(d))
	if ok, _, err := shellNotifyIcon.Call(0, uintptr(unsafe.Pointer(&d))); ok == 0 {
		t.Skipf("NOT CHECKED: there is no notification area here: %v", err)
	}
	if _, err := show(t.Context(), "Neuron", "title", "text", 0); err != nil {
		t.Error(err)
	}
	shellNotifyIcon.Call(2, uintptr(unsafe.Pointer(&d)))
}

func TestTextsFitTheirFields(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("x", 300), strings.Repeat("\U0001F600", 200), "a\x00b"} {
		var field [64]uint16
		for i := range field {
			field[i] = 0xffff
		}
		put(field[:], s)
		got := windows.UTF16ToString(field[:])
		if want, _, _ := strings.Cut(s, "\x00"); !strings.HasPrefix(want, got) || len(utf16.Encode([]rune(got))) < min(62, len(utf16.Encode([]rune(want)))) {
			t.Errorf("%.20q became %q", s, got)
		}
	}
}
