package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"neuron/internal/localnet"
	"neuron/llama/cut"
	"neuron/llama/gguf"
)

// ownExtents is AC-17, proven twice: from the calls of the stage process under
// a tracer (it opens no model file but those of its layers), and from the
// files (each holds the publisher's bytes of its own layers and nothing else).
func ownExtents(ctx context.Context, e *env) (figure string, err error) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		return "", fmt.Errorf("strace is not installed: %w", err)
	}
	n, err := e.startSwarm(ctx, "extents")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, n.net.Stop()) }()
	trace := filepath.Join(e.data, "extents", "trace")
	if err := os.MkdirAll(trace, 0o755); err != nil {
		return "", err
	}
	o := localnet.NodeOptions{Wrap: []string{strace, "-qq", "-ff", "-o", filepath.Join(trace, "t"), "-e", "trace=execve,open,openat,openat2,clone,clone3,fork,vfork", "-s", "4096"}}
	// The layers are fetched: what a stage could open is only what came.
	if err := n.hold(ctx, guideName, guideName, []string{"0-4", "4-8"}, o); err != nil {
		return "", err
	}
	if _, err := n.client.complete(ctx, guideName, promptIDs(100), 20, 0); err != nil {
		return "", err
	}
	dirs := map[string][2]int{}
	for i, x := range n.nodes {
		dir, err := shardFolder(x)
		if err != nil {
			return "", err
		}
		dirs[dir] = [2]int{4 * i, 4*i + 4}
	}
	if err := n.clear(); err != nil {
		return "", err
	}
	opens, stages, err := stageOpens(trace)
	if err != nil {
		return "", err
	}
	if stages != 2 {
		return "", fmt.Errorf("the trace shows %d stage processes, want 2", stages)
	}
	if err := allowedOpens(opens, dirs); err != nil {
		return "", err
	}
	var bytes int64
	for dir, r := range dirs {
		n, err := sameBytes(dir, r[0], r[1])
		if err != nil {
			return "", err
		}
		bytes += n
	}
	return fmt.Sprintf("stages=%d model_files_opened=%d tensor_bytes_compared=%d", stages, len(opens), bytes), nil
}

var (
	opened = regexp.MustCompile(`^open(?:at2?)?\(.*?"((?:[^"\\]|\\.)*)".*\) = (\d+)`)
	cloned = regexp.MustCompile(`^(?:clone3?|fork|vfork)\(.*\)? = (\d+)$`)
)

// stageOpens lists the model files that stage processes opened, and counts the
// processes that opened any (others only ask what library there is). With -ff
// each thread has a file of its own; the threads of a stage are those that its
// main thread and they have cloned.
func stageOpens(dir string) (opens []string, stages int, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "t.*"))
	if err != nil {
		return nil, 0, err
	}
	calls := map[string][]string{}
	var roots []string
	for _, path := range files {
		lines, err := readLines(path)
		if err != nil {
			return nil, 0, err
		}
		tid := strings.TrimPrefix(filepath.Ext(path), ".")
		calls[tid] = lines
		for _, l := range lines {
			if strings.HasPrefix(l, "execve(") && strings.Contains(l, `"stage"]`) {
				roots = append(roots, tid)
			}
		}
	}
	for _, root := range roots {
		if own := threadOpens(calls, root); len(own) > 0 {
			stages++
			opens = append(opens, own...)
		}
	}
	return opens, stages, nil
}

// threadOpens lists the model files that a process opened, by its main thread
// or others.
func threadOpens(calls map[string][]string, root string) (opens []string) {
	queue, seen := []string{root}, map[string]bool{}
	for len(queue) > 0 {
		tid := queue[0]
		queue = queue[1:]
		if seen[tid] {
			continue
		}
		seen[tid] = true
		for _, l := range calls[tid] {
			if m := cloned.FindStringSubmatch(l); m != nil {
				queue = append(queue, m[1])
			}
			if m := opened.FindStringSubmatch(l); m != nil && strings.HasSuffix(m[1], ".gguf") {
				opens = append(opens, m[1])
			}
		}
	}
	return opens
}

func readLines(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		out = append(out, s.Text())
	}
	return out, s.Err()
}

// allowedOpens refuses a model file outside the shard folders, and a layer
// file outside the folder's range.
func allowedOpens(opens []string, dirs map[string][2]int) error {
	if len(opens) == 0 {
		return fmt.Errorf("the trace shows no opened model file")
	}
	for _, path := range opens {
		r, ok := dirs[filepath.Dir(path)]
		if !ok {
			return fmt.Errorf("a stage opened %s", path)
		}
		var layer int
		if n, _ := fmt.Sscanf(filepath.Base(path), "blk.%d.gguf", &layer); n == 1 && (layer < r[0] || layer >= r[1]) {
			return fmt.Errorf("the stage of layers %d-%d opened layer %d", r[0], r[1], layer)
		}
	}
	return nil
}

// sameBytes compares a shard folder with the publisher's file and returns the
// number of tensor bytes.
func sameBytes(dir string, first, last int) (int64, error) {
	src, err := gguf.OpenModel(guide)
	if err != nil {
		return 0, err
	}
	defer src.Close()
	store, err := cut.Open(dir)
	if err != nil {
		return 0, err
	}
	var total int64
	for name, tensors := range store.Index().Files {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return 0, err
		}
		for _, t := range tensors {
			var layer int
			if n, _ := fmt.Sscanf(t.Name, "blk.%d.", &layer); n == 1 && (layer < first || layer >= last) {
				return 0, fmt.Errorf("%s of layers %d-%d holds %s", dir, first, last, t.Name)
			}
			want, ok := src.Tensor(t.Name)
			if !ok {
				return 0, fmt.Errorf("%s is not in the publisher's file", t.Name)
			}
			at := cut.HeaderRegion + int64(t.Offset)
			if !bytes.Equal(raw[at:at+int64(t.Bytes)], src.Data(want)) {
				return 0, fmt.Errorf("%s differs from the publisher's bytes", t.Name)
			}
			total += int64(t.Bytes)
		}
	}
	return total, nil
}
