package speed_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"neuron/engine/probe/speed"
	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/engine/stage/worker"
	"neuron/internal/leaktest"
	"neuron/llama"
)

// TestMain makes the test binary its own stage program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "stage" {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if err := worker.Run(context.Background(), os.Stdin, os.Stdout, log); err != nil {
			log.Error("Stage failed", "error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func options(t *testing.T) speed.Options {
	t.Helper()
	dir, err := llama.NativeDir()
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	return speed.Options{
		Spawn:     stage.Spawn{Exe: os.Args[0], Args: []string{"stage"}, Logger: slog.New(slog.DiscardHandler)},
		NativeDir: dir, Model: filepath.Join("..", "..", "..", "assets", "model", "guide-q8_0.gguf"), Cache: t.TempDir(), Threads: 1,
	}
}

func TestMeasureTheGuideModel(t *testing.T) {
	leaktest.Check(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	v, err := speed.Measure(ctx, options(t))
	if err != nil {
		t.Fatal(err)
	}
	// A small model: more than ten tokens a second on anything, and prompts are
	// read faster than answers are written.
	if v.StepMicros <= 0 || v.TokensPerSecond < 10 || v.PrefillPerSec < v.TokensPerSecond || v.Threads != 1 || v.Model == "" {
		t.Errorf("%+v", v)
	}
	t.Logf("%.0f tokens/s, prefill %.0f tokens/s", v.TokensPerSecond, v.PrefillPerSec)
}

func TestFailuresHaveCodes(t *testing.T) {
	leaktest.Check(t)
	missing := options(t)
	missing.Model = filepath.Join(t.TempDir(), "none.gguf")
	noLibrary := options(t)
	noLibrary.NativeDir = t.TempDir()
	for want, o := range map[protocol.Code]speed.Options{protocol.CodeModelUnknown: missing, protocol.CodeNativeMissing: noLibrary} {
		_, err := speed.Measure(t.Context(), o)
		var e *protocol.Error
		if !errors.As(err, &e) || e.Code != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}
