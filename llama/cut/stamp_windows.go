package cut

import (
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// basicInfo is FILE_BASIC_INFO.
type basicInfo struct {
	Created, Accessed, Written, Changed int64 // 100 ns since 1601
	Attributes                          uint32
	_                                   uint32
}

// stampOf reads the stamp of an open file. Times are asked of the handle:
// those in the folder's listing lag behind.
func stampOf(f *os.File) (stamp, error) {
	var id windows.ByHandleFileInformation
	h := windows.Handle(f.Fd())
	if err := windows.GetFileInformationByHandle(h, &id); err != nil {
		return stamp{}, fmt.Errorf("stat %s: %w", f.Name(), err)
	}
	s := stamp{
		Size: int64(id.FileSizeHigh)<<32 | int64(id.FileSizeLow), Modified: id.LastWriteTime.Nanoseconds(),
		Inode: uint64(id.FileIndexHigh)<<32 | uint64(id.FileIndexLow),
	}
	var b basicInfo
	// File systems without a change time answer with zero or refuse.
	if err := windows.GetFileInformationByHandleEx(h, windows.FileBasicInfo, (*byte)(unsafe.Pointer(&b)), uint32(unsafe.Sizeof(b))); err == nil {
		s.Changed = (b.Changed - 116444736000000000) * 100
	}
	return s, nil
}
