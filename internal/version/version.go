// Package version says which build of Neuron runs.
//
// The version is stamped by the linker (-X neuron/internal/version.stamp=...,
// see the Makefile); a build without a stamp falls back to what the Go
// toolchain recorded. Any package may import it; it imports only the standard
// library and knows nothing of the programs that carry it.
package version

import (
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
)

// stamp is set by the linker.
var stamp string

// unstamped is the version of a build that carries no stamp; the commit, where
// known, follows as build metadata.
const unstamped = "0.0.0-unstamped"

// pattern is semantic versioning 2.0.0 with an optional leading v, without its
// ban on leading zeros. It keeps a wrong stamp from reaching protocols, file
// names and metrics.
var pattern = regexp.MustCompile(`^v?\d{1,5}\.\d{1,5}\.\d{1,5}(-[0-9A-Za-z.-]{1,64})?(\+[0-9A-Za-z.-]{1,64})?$`)

// Info is what a program tells about itself.
type Info struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"` // git revision, where the toolchain recorded it
	Go      string `json:"go"`               // "go1.26.0"
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// String is the version alone, such as "0.1.0-dev+g1a2b3c4".
func String() string { return resolve(stamp, readBuildInfo()) }

// Get describes this build.
func Get() Info {
	bi := readBuildInfo()
	return Info{
		Version: resolve(stamp, bi),
		Commit:  setting(bi, "vcs.revision"),
		Go:      runtime.Version(),
		OS:      runtime.GOOS,
		Arch:    runtime.GOARCH,
	}
}

// String is one line for `--version`.
func (i Info) String() string {
	return fmt.Sprintf("%s (%s %s/%s)", i.Version, i.Go, i.OS, i.Arch)
}

// Check reports a version that does not follow the pattern. Every program
// calls it first and refuses to start on an error: the build is wrong.
func Check() error { return check(String()) }

func check(v string) error {
	if !pattern.MatchString(v) {
		return fmt.Errorf("version %.80q of this build is not MAJOR.MINOR.PATCH[-PRE][+BUILD]", v)
	}
	return nil
}

// resolve picks the stamp, or what the toolchain knows of a build without one.
func resolve(stamp string, bi *debug.BuildInfo) string {
	if stamp != "" {
		return stamp
	}
	if bi != nil && bi.Main.Version != "" && bi.Main.Version != "(devel)" {
		return bi.Main.Version
	}
	if rev := setting(bi, "vcs.revision"); rev != "" {
		v := unstamped + "+g" + rev[:min(12, len(rev))]
		if setting(bi, "vcs.modified") == "true" {
			v += ".dirty"
		}
		return v
	}
	return unstamped
}

func setting(bi *debug.BuildInfo, key string) string {
	if bi == nil {
		return ""
	}
	for _, s := range bi.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}

func readBuildInfo() *debug.BuildInfo {
	bi, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	return bi
}
