package shelf

import (
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// freeBytes is what this user may still write to the volume of dir.
func freeBytes(dir string) (int64, error) {
	name, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, err
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(name, &free, nil, nil); err != nil {
		return 0, &os.PathError{Op: "GetDiskFreeSpaceEx", Path: dir, Err: err}
	}
	return int64(min(free, 1<<62)), nil
}

var getCompressedFileSize = windows.NewLazySystemDLL("kernel32.dll").NewProc("GetCompressedFileSizeW")

// allocated is what a file takes on the disk: less than its size when it is
// sparse.
func allocated(path string, st os.FileInfo) int64 {
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return st.Size()
	}
	var high uint32
	low, _, _ := getCompressedFileSize.Call(uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(&high)))
	if uint32(low) == 0xffffffff && high == 0 {
		return st.Size()
	}
	return int64(high)<<32 | int64(uint32(low))
}

// markSparse lets the file have holes; see llama/cut. File systems without
// holes refuse, the file then takes its whole size.
func markSparse(f *os.File) {
	var n uint32
	_ = windows.DeviceIoControl(windows.Handle(f.Fd()), windows.FSCTL_SET_SPARSE, nil, 0, nil, 0, &n, nil)
}
