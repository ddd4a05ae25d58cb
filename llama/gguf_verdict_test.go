package llama

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/llama/gguf"
)

const (
	ggufChildEnv = "NEURON_TEST_GGUF_CHILD"
	ggufAbort    = "/abort" // instead of a path: end the process as a bad file might
)

// TestGGUFChild is the child of TestGGUFVerdicts: it reads paths from its input
// and says for each one what the library makes of it. A file may end the process.
func TestGGUFChild(t *testing.T) {
	if os.Getenv(ggufChildEnv) == "" {
		t.Skip("runs as a child of TestGGUFVerdicts only")
	}
	load(t)
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if in.Text() == ggufAbort {
			cGGUFKey(uintptr(emptyGGUF(t)), 0) // there is none: an assertion fails
		}
		g, err := GGUFOpen(in.Text())
		if err != nil {
			fmt.Println("verdict reject")
			continue
		}
		fmt.Println("verdict accept", g.NKV(), g.NTensors(), g.DataOffset())
		g.Free()
	}
	if err := in.Err(); err != nil {
		t.Fatal(err)
	}
}

// ggufVerdicts has children read the files, a new one for what is left when a
// file has ended the last one: its verdict is "crash".
func ggufVerdicts(t *testing.T, files []string) []string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for len(all) < len(files) {
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestGGUFChild$", "-test.count=1")
		cmd.Env = append(os.Environ(), ggufChildEnv+"=1", "GGML_NO_BACKTRACE=1")
		cmd.Stdin = strings.NewReader(strings.Join(files[len(all):], "\n"))
		out, err := cmd.Output()
		for line := range strings.Lines(string(out)) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(line), "verdict "); ok {
				all = append(all, v)
			}
		}
		// 1 is a test that failed: the child, not the library, has a fault.
		if cmd.ProcessState.ExitCode() == 1 || len(all) > len(files) || (err == nil) != (len(all) == len(files)) {
			t.Fatalf("child: %v, %d verdicts on %d files: %s", err, len(all), len(files), out)
		}
		if err != nil {
			all = append(all, "crash")
		}
	}
	return all
}

// The test of verdicts would notice a crash, and go on behind it.
func TestGGUFVerdictsSurviveAbort(t *testing.T) {
	load(t)
	bad := filepath.Join(t.TempDir(), "bad.gguf")
	if err := os.WriteFile(bad, []byte("GGUF"), 0o600); err != nil {
		t.Fatal(err)
	}
	got := ggufVerdicts(t, []string{guidePath(t), ggufAbort, ggufAbort, bad, ggufAbort})
	got[0], _, _ = strings.Cut(got[0], " ")
	if d := cmp.Diff([]string{"accept", "crash", "crash", "reject", "crash"}, got); d != "" {
		t.Error(d)
	}
}

// What the library refuses, or dies of, our reader refuses; about what both
// accept they agree.
func TestGGUFVerdicts(t *testing.T) {
	load(t)
	files := sharedGGUF(t)
	accepted, rejected, stricter := 0, 0, 0
	for i, verdict := range ggufVerdicts(t, files) {
		path := files[i]
		f, err := gguf.Open(path)
		if err == nil {
			f.Close() // the header stays
		}
		switch {
		case !strings.HasPrefix(verdict, "accept"):
			rejected++
			if err == nil {
				t.Errorf("%s: the library says %s, our reader accepts", path, verdict)
			}
			if verdict == "crash" {
				t.Logf("%s ends the process", path)
			}
		case err != nil:
			stricter++
			t.Logf("stricter than the library: %v", err)
		default:
			accepted++
			g := openGGUF(t, path)
			if got := fmt.Sprint("accept ", g.NKV(), " ", g.NTensors(), " ", g.DataOffset()); got != verdict {
				t.Errorf("%s: child says %s, parent %s", path, verdict, got)
			}
			agree(t, g, f.Header())
		}
	}
	t.Logf("%d files: %d accepted and %d rejected by both, %d only by our reader", len(files), accepted, rejected, stricter)
	if accepted == 0 || rejected == 0 {
		t.Error("the files are not what they were")
	}
}

// sharedGGUF lists the foreign files, below $NEURON_SHARED or in the folder
// "shared" beside the repository.
func sharedGGUF(t *testing.T) []string {
	t.Helper()
	root := os.Getenv("NEURON_SHARED")
	if root == "" {
		root = filepath.Join(filepath.Dir(guidePath(t)), "..", "..", "..", "shared")
	}
	var files []string
	for _, sub := range []string{"gguf", "gguf-edge"} {
		dir := filepath.Join(root, "testdata", sub)
		if _, err := os.Stat(dir); err != nil {
			t.Skipf("SKIPPED: the shared test files are not at %s; set NEURON_SHARED to run this test", dir)
		}
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files
}
