package llama

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// NativeVersion is the only llama.cpp release that this package speaks to. It is
// part of the file names of the libraries.
const NativeVersion = "0.4.0"

// NativeDirEnv names the environment variable that overrides where the libraries are.
const NativeDirEnv = "NEURON_LLAMA_DIR"

// Platform is the name of the default native package for this system, as in
// "linux-x64", or "" when there is none.
func Platform() string { return platformOf(runtime.GOOS, runtime.GOARCH) }

func platformOf(goos, goarch string) string {
	switch goos + "/" + goarch {
	case "linux/amd64":
		return "linux-x64"
	case "linux/arm64":
		return "linux-arm64"
	case "darwin/arm64":
		return "mac-arm64-metal"
	case "darwin/amd64":
		return "mac-x64"
	case "windows/amd64":
		return "win-x64"
	case "windows/arm64":
		return "win-arm64"
	}
	return ""
}

// NativeDir finds the folder with the shared libraries: the environment variable
// NEURON_LLAMA_DIR, then lib/ next to the executable (on macOS also ../Frameworks
// of an application bundle), then build/native/<platform> in the folders above
// the executable and above the working directory. A set variable is final: it is
// never passed over in silence. The error has code native_missing.
func NativeDir() (string, error) {
	const op = "find native libraries"
	if dir := os.Getenv(NativeDirEnv); dir != "" {
		if _, err := findLibrary(dir, "llama"); err != nil {
			return "", fail(CodeNativeMissing, op, NativeDirEnv+": "+err.Error())
		}
		return filepath.Abs(dir)
	}
	platform := Platform()
	if platform == "" {
		return "", fail(CodeNativeMissing, op, "no native package for "+runtime.GOOS+"/"+runtime.GOARCH)
	}
	for _, dir := range nativeCandidates(platform) {
		if _, err := findLibrary(dir, "llama"); err == nil {
			return dir, nil
		}
	}
	return "", fail(CodeNativeMissing, op, "no libllama v"+NativeVersion+" for "+platform+
		"; install it with: sh llama/native/install.sh "+platform+" (or set "+NativeDirEnv+")")
}

func nativeCandidates(platform string) []string {
	var dirs []string
	var starts []string
	if exe, err := os.Executable(); err == nil {
		if real, err := filepath.EvalSymlinks(exe); err == nil {
			exe = real
		}
		base := filepath.Dir(exe)
		dirs = append(dirs, filepath.Join(base, "lib"), filepath.Join(base, "..", "Frameworks"))
		starts = append(starts, base)
	}
	if wd, err := os.Getwd(); err == nil {
		starts = append(starts, wd)
	}
	for _, dir := range starts {
		for {
			dirs = append(dirs, filepath.Join(dir, "build", "native", platform))
			up := filepath.Dir(dir)
			if up == dir {
				break
			}
			dir = up
		}
	}
	return dirs
}

// findLibrary gives the path of the library with that stem ("llama", "ggml",
// "ggml-base"). The first two carry the version, and in accelerated packages the
// name of the accelerator: libllama.metal.v0.4.0.dylib.
func findLibrary(dir, stem string) (string, error) {
	prefix, ext := libraryAffixes(runtime.GOOS)
	if stem == "ggml-base" {
		path := filepath.Join(dir, prefix+stem+ext)
		if _, err := os.Stat(path); err != nil {
			return "", fail(CodeNativeMissing, "find "+stem, err.Error())
		}
		return path, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fail(CodeNativeMissing, "find "+stem, err.Error())
	}
	other := ""
	for _, e := range entries {
		switch matchLibrary(e.Name(), prefix, stem, ext) {
		case libraryMatch:
			return filepath.Join(dir, e.Name()), nil
		case libraryOtherVersion:
			other = e.Name()
		}
	}
	if other != "" {
		return "", fail(CodeNativeVersion, "find "+stem, "found "+other+", want v"+NativeVersion)
	}
	return "", fail(CodeNativeMissing, "find "+stem, "no "+prefix+stem+".v"+NativeVersion+ext+" in "+dir)
}

func libraryAffixes(goos string) (prefix, ext string) {
	switch goos {
	case "windows":
		return "", ".dll"
	case "darwin":
		return "lib", ".dylib"
	}
	return "lib", ".so"
}

const (
	libraryNoMatch      = 0
	libraryMatch        = 1
	libraryOtherVersion = 2
)

func matchLibrary(name, prefix, stem, ext string) int {
	rest, ok := strings.CutPrefix(name, prefix+stem+".")
	if !ok {
		return libraryNoMatch
	}
	rest, ok = strings.CutSuffix(rest, ext)
	if !ok {
		return libraryNoMatch
	}
	if j := strings.Index(rest, ".v"); j >= 0 {
		rest = rest[j+1:] // skip the accelerator
	}
	if rest == "v"+NativeVersion {
		return libraryMatch
	}
	if strings.HasPrefix(rest, "v") {
		return libraryOtherVersion
	}
	return libraryNoMatch
}
