package cut

import (
	"os"

	"golang.org/x/sys/windows"
)

// markSparse lets the file have holes: NTFS gives a file that was made longer
// all its clusters unless it is sparse. File systems without holes refuse; the
// file then takes its whole size, which costs space and nothing else.
func markSparse(f *os.File) {
	var n uint32
	_ = windows.DeviceIoControl(windows.Handle(f.Fd()), windows.FSCTL_SET_SPARSE, nil, 0, nil, 0, &n, nil)
}
