package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/artifact/artifacttest"
	"neuron/engine/cli/clitest"
	"neuron/engine/localapi"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/internal/leaktest"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// in runs a command in this process and wants success.
func in(t *testing.T, args ...string) string {
	t.Helper()
	return clitest.In(t, newRoot(), args...)
}

func TestInspect(t *testing.T) {
	clitest.Golden(t, "inspect-guide.txt", in(t, "models", "inspect", "--memory", "16", "--id", guide))
	if out := in(t, "inspect", guide); strings.Contains(out, "\nid ") || !strings.Contains(out, "of memory could hold all of it") {
		t.Errorf("inspected without an id:\n%s", out)
	}
	clitest.Golden(t, "inspect-guide.json", in(t, "inspect", "--json", guide))

	// A family that is not certified says that it is not cut.
	raw, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	head := 64 << 10
	unknown := filepath.Join(t.TempDir(), "unknown.gguf")
	raw = append(bytes.ReplaceAll(raw[:head:head], []byte("llama"), []byte("llamx")), raw[head:]...)
	if err := os.WriteFile(unknown, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := in(t, "inspect", unknown); !strings.Contains(out, "family   llamx\n") || !strings.Contains(out, "cuts     none: ") {
		t.Errorf("unknown family:\n%s", out)
	}

	// The figures of a model whose shape is known.
	shape, err := synth.Preset("tiny-qwen3")
	if err != nil {
		t.Fatal(err)
	}
	small := filepath.Join(t.TempDir(), "small.gguf")
	if err := synth.Write(small, shape, synth.Options{Type: gguf.TypeQ8_0}); err != nil {
		t.Fatal(err)
	}
	var c protocol.Capability
	if err := json.Unmarshal([]byte(in(t, "inspect", "--json", small)), &c); err != nil {
		t.Fatal(err)
	}
	if c.Name != "small" || c.Architecture != "qwen3" || c.Layers != shape.Layers || c.Width != shape.Embd || c.MaxContext != shape.Context ||
		c.KVBytesPerCell != int64(2*2*shape.Layers*shape.KVHeads*shape.HeadDim) {
		t.Errorf("%+v", c)
	}
}

// TestInspectRefuses: what "run" would not give to the library is described in
// neither form.
func TestInspectRefuses(t *testing.T) {
	dir := t.TempDir()
	good, bare, plm := filepath.Join(dir, "good.gguf"), filepath.Join(dir, "bare.gguf"), filepath.Join(dir, "plm.gguf")
	artifacttest.Rewrite(t, guide, good, "codeshell", func(string) bool { return true })
	artifacttest.Rewrite(t, good, bare, "codeshell", func(tensor string) bool { return tensor != "token_embd.weight" })
	artifacttest.Rewrite(t, good, plm, "plm", func(string) bool { return true })
	for path, text := range map[string]string{bare: "without token_embd.weight", plm: "flash attention"} {
		for _, form := range []string{"--json=false", "--json"} {
			out, err := clitest.Refused(t, protocol.CodeUnsupported, newRoot(), "inspect", form, path)
			if out != "" || err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("inspect %s %s: %v\n%s", form, filepath.Base(path), err, out)
			}
		}
	}
	if out := in(t, "inspect", good); !strings.Contains(out, "family   codeshell\n") {
		t.Errorf("with an embedding:\n%s", out)
	}
}

// TestRunningNode asks a node that runs in this process.
func TestRunningNode(t *testing.T) {
	leaktest.Check(t)
	data := t.TempDir()
	n, err := program.NewNode(t.Context(), program.NodeOptions{Data: data, Model: guide, Layers: "2-6", Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	<-n.Ready()
	if r := n.Stage().Report(); r.Error != nil && r.Error.Code == protocol.CodeNativeMissing {
		t.Fatal("no native libraries: run make native")
	}

	status := in(t, "status", "--data", data)
	for _, want := range []string{
		"node     " + string(n.ID()), "seam     " + n.SeamAddr(), "tracker   works alone", "holds    guide-q8_0 layers 2-6: ready, ", " 0 sessions, ",
	} {
		if !strings.Contains(status, want) {
			t.Errorf("status has no %q:\n%s", want, status)
		}
	}
	if strings.Contains(status, "%!") {
		t.Errorf("a verb went wrong:\n%s", status)
	}
	var s localapi.Status
	if err := json.Unmarshal([]byte(in(t, "status", "--data", data, "--json")), &s); err != nil || s.Node != n.ID() || len(s.Shards) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	models := strings.Split(in(t, "models", "--data", data), "\n")
	if f := strings.Fields(models[1]); len(models) != 3 || len(f) != 6 || f[0] != "guide-q8_0" || f[2] != "llama" || f[3] != "8" || f[4] != "2-6" || f[5] != "2048" {
		t.Errorf("models:\n%s", strings.Join(models, "\n"))
	}
	var list []localapi.Model
	if err := json.Unmarshal([]byte(in(t, "models", "--data", data, "--json")), &list); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
	if out := in(t, "sessions", "--data", data); strings.Count(out, "\n") != 1 || !strings.HasPrefix(out, "SESSION ") {
		t.Errorf("sessions:\n%s", out)
	}
}

// TestRunCommand starts the program itself, which says where it is and ends
// with 0 when it is asked to.
func TestRunCommand(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	c := command(t, "run", "--data", data, "--model", guide, "--layers", "0-4", "--threads", "1")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 4096)
	k, err := out.Read(line)
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if f := strings.Fields(string(line[:k])); len(f) != 6 || f[0] != "node" || f[2] != "seam" || f[5] != data {
		t.Errorf("first line %q", line[:k])
	}
	if status, _, code := result(t, "", "status", "--data", data); code != exitOK || !strings.Contains(status, "guide-q8_0 layers 0-4") {
		t.Errorf("status %d:\n%s", code, status)
	}
	if _, stderr, code := result(t, "", "run", "--data", data, "--model", guide); code != exitFail || !strings.Contains(stderr, "(already_running)") {
		t.Errorf("second engine: %d\n%s", code, stderr)
	}
	c.Process.Signal(os.Interrupt)
	if err := c.Wait(); err != nil {
		t.Errorf("%v\n%s", err, stderr.String())
	}
}

// TestStop wants a running engine to end with 0, and "stop" to return only
// when the data folder is free.
func TestStop(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	c := command(t, "run", "--data", data, "--model", guide, "--layers", "0-2")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 4096)); err != nil { // its first line: the local API is there
		t.Fatal(err)
	}
	if stdout, stderr, code := result(t, "", "stop", "--data", data); code != exitOK || stdout != "" {
		t.Errorf("stop: %d %q\n%s", code, stdout, stderr)
	}
	// The folder is free at once for the next engine.
	if again, err := program.NewNode(t.Context(), program.NodeOptions{Data: data, Model: guide, Layers: "0-2"}); err != nil {
		t.Error(err)
	} else if err := again.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Wait(); err != nil {
		t.Errorf("the engine ended with %v", err)
	}
	if _, stderr, code := result(t, "", "stop", "--data", data); code != exitFail || !strings.Contains(stderr, "(unavailable)") {
		t.Errorf("nothing to stop: %d\n%s", code, stderr)
	}
}
