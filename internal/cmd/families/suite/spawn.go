package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// errTail is how much of a child's last words is kept.
const errTail = 4096

// spawn runs a job in a process of its own and always gives an outcome: a process that
// died is one too.
func (r *run) spawn(ctx context.Context, j Job) (*Outcome, error) {
	dir, err := tempDir()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	j.Dir = dir
	limited, cancel := context.WithTimeout(ctx, r.o.Limit)
	defer cancel()
	cmd := exec.CommandContext(limited, r.o.Program, j.args()...)
	cmd.Env = append(os.Environ(), "GGML_NO_BACKTRACE=1")
	if j.Vulkan {
		cmd.Env = append(cmd.Env, r.vulkanEnv()...)
	}
	cmd.WaitDelay = 5 * time.Second
	var out bytes.Buffer
	last := &tail{}
	cmd.Stdout, cmd.Stderr = &out, last
	began := time.Now()
	runErr := cmd.Run()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	o := &Outcome{Model: j.Model, Type: j.Type, Device: j.device()}
	switch {
	case runErr == nil:
		if err := json.Unmarshal(out.Bytes(), o); err != nil {
			return nil, fmt.Errorf("%s %s: the child said something else: %w", j.Model, j.Type, err)
		}
	case errors.Is(limited.Err(), context.DeadlineExceeded):
		o.Failure = fmt.Sprintf("took more than %s", r.o.Limit)
	default:
		o.Failure = fmt.Sprintf("the process ended: %v; %s", runErr, lastLine(last.String()))
	}
	if o.Seconds == 0 {
		o.Seconds = time.Since(began).Seconds()
	}
	return o, nil
}

// tail keeps the end of what is written to it.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if n := len(t.b) - errTail; n > 0 {
		t.b = t.b[n:]
	}
	return len(p), nil
}

func (t *tail) String() string { return string(t.b) }

// lastLine finds what ggml said when it ended the process, or the last line.
func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for _, line := range lines {
		if strings.Contains(line, "GGML_ASSERT") || strings.Contains(line, "GGML_ABORT") || strings.Contains(line, "fatal error") {
			return strings.TrimSpace(line)
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}
