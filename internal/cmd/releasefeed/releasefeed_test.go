package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func put(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// do runs a command and wants its status.
func do(t *testing.T, want int, args ...string) (out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	if got := run(args, &o, &e); got != want {
		t.Fatalf("%v ended with %d\n%s%s", args, got, o.String(), e.String())
	}
	return o.String(), e.String()
}

func TestKeySignVerify(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	dist := filepath.Join(dir, "dist")
	if err := os.Mkdir(dist, 0o755); err != nil {
		t.Fatal(err)
	}
	var sums strings.Builder
	for _, name := range []string{"neuron_1.2.0_amd64.deb", "Neuron-Setup-1.2.0-x64.exe", "neuron-tracker_1.2.0_amd64.deb", "sbom.json"} {
		put(t, filepath.Join(dist, name), "content of "+name)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256([]byte("content of "+name)), name)
	}
	put(t, filepath.Join(dist, sumsFile), sums.String())
	put(t, filepath.Join(dir, "new.txt"), "It starts faster.\n")
	key, list := filepath.Join(dir, "release.key"), filepath.Join(dir, "stable.json")

	pub, _ := do(t, 0, "keygen", "-out", key)
	pub = strings.TrimSpace(pub)
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	do(t, 1, "keygen", "-out", key) // it is never replaced
	other, _ := do(t, 0, "keygen", "-out", key+"2")
	other = strings.TrimSpace(other)

	signing := []string{"sign", "-key", key, "-dist", dist, "-version", "v1.2.0", "-notes", "en=" + filepath.Join(dir, "new.txt"), "-out", list}
	_, said := do(t, 0, signing...)
	if !strings.Contains(said, "left out: neuron-tracker_1.2.0_amd64.deb") || !strings.Contains(said, "left out: sbom.json") || strings.Count(said, "amd64 ") != 2 {
		t.Errorf("%s", said)
	}
	out, _ := do(t, 0, "verify", "-key", pub, "-dist", dist, "-channel", "stable", list)
	if !strings.Contains(out, "windows/amd64 setup: Neuron-Setup-1.2.0-x64.exe, 37 bytes") || !strings.Contains(out, "version 1.2.0, channel stable") {
		t.Errorf("%s", out)
	}
	do(t, 0, "verify", "-key", other, "-key", pub, list)
	do(t, 1, "verify", "-key", other, list)
	do(t, 1, "verify", "-key", pub, "-channel", "beta", list)
	do(t, 1, "verify", "-key", pub, "-at", time.Now().AddDate(1, 0, 0).UTC().Format(time.RFC3339), list)
	// Two keys, while one follows the other.
	do(t, 0, append(signing, "-key", key+"2")...)
	do(t, 0, "verify", "-key", other, list)

	put(t, filepath.Join(dist, "neuron_1.2.0_amd64.deb"), "another build")
	do(t, 1, "verify", "-key", pub, "-dist", dist, list)
	_, said = do(t, 1, signing...)
	if !strings.Contains(said, "is not the file of SHA256SUMS") {
		t.Errorf("%s", said)
	}
}

func TestWrongUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	do(t, 2)
	do(t, 2, "publish")
	do(t, 1, "keygen")
	do(t, 1, "sign", "-version", "1.0.0")
	do(t, 1, "verify", "x.json")
	do(t, 1, "verify", "-key", "zz", filepath.Join(dir, "none.json"))
	for name, content := range map[string]string{
		"no sums": "", "no sum": "neuron.deb\n", "a folder": strings.Repeat("0", 64) + "  ../neuron.deb\n",
		"twice": strings.Repeat(strings.Repeat("0", 64)+"  a.deb\n", 2), "not there": strings.Repeat("0", 64) + "  neuron_1.0.0_amd64.deb\n",
	} {
		put(t, filepath.Join(dir, sumsFile), content)
		key := filepath.Join(dir, strings.ReplaceAll(name, " ", "-")+".key")
		do(t, 0, "keygen", "-out", key)
		do(t, 1, "sign", "-key", key, "-dist", dir, "-version", "1.0.0")
	}
}
