package hardware

import (
	"context"
	"os"
	"runtime"
	"strings"

	"github.com/shirou/gopsutil/v3/host"
)

// system is the name of the operating system for people: "Debian GNU/Linux 12
// (bookworm)", "Windows 11 Pro", "macOS 14.5".
func system(ctx context.Context) string {
	if runtime.GOOS == "linux" {
		for _, path := range []string{"/etc/os-release", "/usr/lib/os-release"} {
			if raw, err := os.ReadFile(path); err == nil {
				if name := prettyName(string(raw)); name != "" {
					return name
				}
			}
		}
		return "Linux"
	}
	platform, _, release, err := host.PlatformInformationWithContext(ctx)
	if err != nil {
		return runtime.GOOS
	}
	return systemName(platform, release)
}

// maxName bounds a foreign name.
const maxName = 100

// prettyName reads PRETTY_NAME of os-release(5).
func prettyName(text string) string {
	for line := range strings.Lines(text) {
		if v, ok := strings.CutPrefix(strings.TrimSpace(line), "PRETTY_NAME="); ok {
			v = strings.Trim(v, `"'`)
			if len(v) <= maxName {
				return v
			}
		}
	}
	return ""
}

func systemName(platform, release string) string {
	if platform == "darwin" {
		return "macOS " + release
	}
	if name, ok := strings.CutPrefix(platform, "Microsoft "); ok {
		return name
	}
	return strings.TrimSpace(platform + " " + release)
}
