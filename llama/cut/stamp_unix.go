//go:build unix

package cut

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// stampOf reads the stamp of an open file.
func stampOf(f *os.File) (stamp, error) {
	var st unix.Stat_t
	for {
		err := unix.Fstat(int(f.Fd()), &st)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return stamp{}, fmt.Errorf("stat %s: %w", f.Name(), err)
		}
	}
	return stamp{Size: st.Size, Modified: st.Mtim.Nano(), Changed: st.Ctim.Nano(), Inode: st.Ino}, nil
}
