// Package torch is acceptance criterion AC-05: an independent implementation in
// plain PyTorch computes the same logits as a route, within a stated tolerance,
// and a route of one hop is faster than it. Package acceptance runs it; nothing
// else imports it.
//
// The reference (reference.py) reads GGUF files by itself and knows nothing of
// llama.cpp. It runs as a process of its own.
package torch

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// script is the reference; it shares no code with us.
//
//go:embed reference.py
var script []byte

// MissingError says that PyTorch is not installed here, so that nothing was checked.
type MissingError struct{ Reason string }

// Error implements error.
func (m *MissingError) Error() string {
	return "NOT CHECKED: " + m.Reason + " (sudo apt-get install -y --no-install-recommends python3-torch libopenblas0-pthread)"
}

// interpreter finds a Python that has PyTorch. Debian's package belongs to
// /usr/bin/python3, which another Python in the path may hide.
func interpreter(ctx context.Context) (string, error) {
	last := "there is no python3"
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		out, err := exec.CommandContext(ctx, path, "-c", "import numpy, torch").CombinedOutput()
		if err == nil {
			return path, nil
		}
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		last = path + ": " + lines[len(lines)-1]
	}
	return "", &MissingError{last}
}

// reference is a running reference; it has the model that was loaded last.
type reference struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Scanner
	text    strings.Builder // what it said of its end
	dir     string
	version string // PyTorch's
}

// start runs the reference; dir keeps its files. The caller closes it.
func start(ctx context.Context, python, dir string) (_ *reference, err error) {
	file := filepath.Join(dir, "reference.py")
	if err := os.WriteFile(file, script, 0o600); err != nil {
		return nil, fmt.Errorf("the reference: %w", err)
	}
	r := &reference{cmd: exec.CommandContext(ctx, python, file), dir: dir}
	// OpenBLAS counts cores by itself; one thread on both sides.
	r.cmd.Env = append(os.Environ(), "OPENBLAS_NUM_THREADS=1", "OMP_NUM_THREADS=1", "PYTHONDONTWRITEBYTECODE=1")
	r.cmd.Stderr = &r.text
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("the reference: %w", err)
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("the reference: %w", err)
	}
	r.out = bufio.NewScanner(out)
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("the reference: %w", err)
	}
	var hello struct {
		Torch string `json:"torch"`
	}
	if err := r.answer(&hello); err != nil {
		return nil, errors.Join(err, r.close())
	}
	r.version = hello.Torch
	return r, nil
}

// close ends the process and says how it ended.
func (r *reference) close() error {
	r.in.Close() // its loop ends with its input
	if err := r.cmd.Wait(); err != nil {
		return fmt.Errorf("the reference: %w: %s", err, r.last())
	}
	return nil
}

// last is the last line of what the process said.
func (r *reference) last() string {
	lines := strings.Split(strings.TrimSpace(r.text.String()), "\n")
	return lines[len(lines)-1]
}

func (r *reference) answer(to any) error {
	if !r.out.Scan() {
		return errors.New("the reference gives no answer")
	}
	if err := json.Unmarshal(r.out.Bytes(), to); err != nil {
		return fmt.Errorf("the reference's answer: %w", err)
	}
	return nil
}

func (r *reference) ask(request map[string]any, to any) error {
	raw, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("the reference: %w", err)
	}
	if _, err := r.in.Write(append(raw, '\n')); err != nil {
		return fmt.Errorf("the reference: %w", err)
	}
	return r.answer(to)
}

// load makes the reference take a model.
func (r *reference) load(model string) error {
	return r.ask(map[string]any{"op": "load", "model": model}, &struct{}{})
}

// logits are those of all positions of ids.
func (r *reference) logits(ids []int32) ([][]float32, error) {
	file := filepath.Join(r.dir, "logits.f32")
	if err := r.ask(map[string]any{"op": "logits", "ids": ids, "out": file}, &struct{}{}); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("the reference's logits: %w", err)
	}
	if len(ids) == 0 || len(raw)%(4*len(ids)) != 0 || len(raw) == 0 {
		return nil, fmt.Errorf("the reference gave %d bytes for %d positions", len(raw), len(ids))
	}
	out := make([][]float32, len(ids))
	width := len(raw) / 4 / len(ids)
	for i := range out {
		out[i] = make([]float32, width)
		for j := range out[i] {
			out[i][j] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*(i*width+j):]))
		}
	}
	return out, nil
}

// prompt makes the reference keep a prompt's keys and values.
func (r *reference) prompt(ids []int32) error {
	return r.ask(map[string]any{"op": "prompt", "ids": ids}, &struct{}{})
}

// decode makes greedy steps behind the prompt, and gives its tokens, the prompt's
// own one first, and how long the steps took by the reference's own clock.
func (r *reference) decode(steps int) ([]int32, time.Duration, error) {
	var a struct {
		Seconds float64 `json:"seconds"`
		Tokens  []int32 `json:"tokens"`
	}
	if err := r.ask(map[string]any{"op": "decode", "steps": steps}, &a); err != nil {
		return nil, 0, err
	}
	if a.Seconds <= 0 || len(a.Tokens) != steps+1 {
		return nil, 0, fmt.Errorf("the reference made %d tokens in %g s", len(a.Tokens), a.Seconds)
	}
	return a.Tokens, time.Duration(a.Seconds * float64(time.Second)), nil
}
