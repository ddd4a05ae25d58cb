package update

import (
	"crypto/ed25519"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"neuron/engine/update/feed"
)

// What the linker sets for a release (-X neuron/engine/update.stampedKeys=...,
// see the Makefile). Without a key a build believes no list of releases.
var (
	stampedKeys string // public keys in hex, with commas
	stampedFeed string // https address of the list
)

// BuiltIn are the release keys and the address that this build was made with.
// A key that cannot be read is no key: Reason then says that there is none.
func BuiltIn() (keys []ed25519.PublicKey, address string) { return builtIn(stampedKeys, stampedFeed) }

func builtIn(stamp, address string) (keys []ed25519.PublicKey, _ string) {
	for s := range strings.SplitSeq(stamp, ",") {
		if k, err := feed.ParseKey(strings.TrimSpace(s)); err == nil {
			keys = append(keys, k)
		}
	}
	return keys, address
}

// KindFile is the file by which a package says what it is: its kind in one word,
// beside the programs or in share/neuron of the same prefix.
const KindFile = "package-kind"

// Installed says how this program came onto the computer: by its package's word,
// else by what the system knows of the file.
func Installed() feed.Kind {
	exe, err := os.Executable()
	if err != nil {
		return feed.KindTar
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	return installed(runtime.GOOS, exe, exists)
}

func installed(system, exe string, exists func(string) bool) feed.Kind {
	dir := filepath.Dir(exe)
	for _, path := range []string{filepath.Join(dir, KindFile), filepath.Join(dir, "..", "share", "neuron", KindFile), filepath.Join(dir, "..", "Resources", KindFile)} {
		if k := feed.Kind(word(path)); feed.Installable(system, k) {
			return k
		}
	}
	switch system {
	case "windows":
		return feed.KindSetup
	case "darwin":
		return feed.KindDMG
	}
	switch slashed := filepath.ToSlash(exe); {
	case exists(filepath.Join(dir, "uninstall")): // of the installation for one user
		return feed.KindRun
	case !strings.HasPrefix(slashed, "/usr/") && !strings.HasPrefix(slashed, "/opt/"):
		return feed.KindTar
	case exists("/var/lib/dpkg/info/neuron.list"):
		return feed.KindDeb
	case exists("/var/lib/rpm") || exists("/usr/lib/sysimage/rpm"):
		return feed.KindRPM
	}
	return feed.KindTar
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// word reads a small file of one word, "" when there is none.
func word(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	var b [32]byte
	n, err := f.Read(b[:])
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b[:n]))
}
