package lowprio_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"neuron/internal/lowprio"
)

const childEnv = "NEURON_LOWPRIO_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) == "" {
		os.Exit(m.Run())
	}
	if err := lowprio.Process(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	// Threads that exist, and new ones.
	got := make(chan int)
	for range 8 {
		go func() { got <- priority() }()
	}
	for range 8 {
		fmt.Println(<-got)
	}
}

// priority is the nice value of the calling thread; the system call answers
// with 20 less it.
func priority() int {
	n, err := unix.Getpriority(unix.PRIO_PROCESS, unix.Gettid())
	if err != nil {
		return -1
	}
	return 20 - n
}

// TestDoLowersItsThreadAlone: the work is low, and no thread is left so that
// other goroutines could come to run on it.
func TestDoLowersItsThreadAlone(t *testing.T) {
	t.Parallel()
	before := priority()
	boom := errors.New("boom")
	for range 20 {
		inside := 0
		if err := lowprio.Do(func() error { inside = priority(); return boom }); !errors.Is(err, boom) {
			t.Fatalf("error %v", err)
		}
		if inside != 19 {
			t.Fatalf("priority inside is %d", inside)
		}
		if now := priority(); now != before {
			t.Fatalf("priority outside is %d, was %d", now, before)
		}
	}
	defer func() {
		if p := recover(); p != "boom" {
			t.Errorf("recovered %v", p)
		}
	}()
	_ = lowprio.Do(func() error { panic("boom") })
}

func TestProcessLowersAllThreads(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, line := range strings.Fields(string(out)) {
		if line != "19" {
			t.Errorf("a thread has priority %s", line)
		}
	}
}
