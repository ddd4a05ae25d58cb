package main

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// sumsFile has the SHA-256 of every package, as sha256sum writes it.
const sumsFile = "SHA256SUMS"

var sumLine = regexp.MustCompile(`^([0-9a-f]{64}) [ *](.+)$`)

// readSums reads the sums of a folder, by the files' names.
func readSums(dir string) (map[string]string, error) {
	f, err := os.Open(filepath.Join(dir, sumsFile))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string]string{}
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		m := sumLine.FindStringSubmatch(line)
		if m == nil {
			return nil, fmt.Errorf("%s:%d is no sum of a file", sumsFile, n)
		}
		name := strings.TrimPrefix(m[2], "./")
		if name != filepath.Base(name) {
			return nil, fmt.Errorf("%s:%d: %q lies in another folder", sumsFile, n, name)
		}
		if _, there := out[name]; there {
			return nil, fmt.Errorf("%s:%d: %s stands there twice", sumsFile, n, name)
		}
		out[name] = m[1]
	}
	return out, lines.Err()
}

// measure is a file's size and SHA-256.
func measure(path string) (size int64, sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return 0, "", err
	}
	return size, sumHex(h.Sum(nil)), nil
}
