package main

import (
	"bytes"
	"flag"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSampleConfig: the file that installers bring is the one that this program
// prints, and all its settings can be read with their comment sign taken away.
func TestSampleConfig(t *testing.T) {
	t.Parallel()
	want := sampleConfig()
	if got, err := os.ReadFile("../installers/linux/tracker.conf"); err != nil || string(got) != want {
		t.Errorf("installers/linux/tracker.conf is not what \"neuron-tracker config\" prints (%v)", err)
	}
	all := regexp.MustCompile(`(?m)^#([a-z][-a-z]*)`).ReplaceAllString(want, "$1")
	path := filepath.Join(t.TempDir(), "conf")
	if err := os.WriteFile(path, []byte(all), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	serve(flags)
	defaults := map[string]string{}
	flags.VisitAll(func(f *flag.Flag) { defaults[f.Name] = f.DefValue })
	if err := flags.Parse([]string{"--config", path}); err != nil {
		t.Fatal(err)
	}
	if err := settings(flags); err != nil {
		t.Fatal(err)
	}
	seen := 0
	flags.Visit(func(*flag.Flag) { seen++ })
	flags.VisitAll(func(f *flag.Flag) {
		if f.Name != configFlag && f.Name != "data" && f.DefValue != "" && f.Value.String() != defaults[f.Name] {
			t.Errorf("%s is %q in the file, %q without it", f.Name, f.Value, defaults[f.Name])
		}
	})
	if seen != len(defaults) {
		t.Errorf("the file sets %d of %d flags", seen, len(defaults))
	}
}

// TestSettingsOrder: command line before environment before file, and nothing
// that is not a setting.
func TestSettingsOrder(t *testing.T) {
	t.Setenv("NEURON_TRACKER_LOG_LEVEL", "warn")
	t.Setenv("NEURON_TRACKER_MAX_CONNECTIONS", "7")
	path := filepath.Join(t.TempDir(), "conf")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\nlog-level error\nmax-per-address 9 # of a proxy\nmax-connections 8\ncredit required\n")
	read := func() (map[string]string, error) {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		serve(flags)
		if err := flags.Parse([]string{"--config", path, "--credit", "off"}); err != nil {
			t.Fatal(err)
		}
		err := settings(flags)
		got := map[string]string{}
		flags.VisitAll(func(f *flag.Flag) { got[f.Name] = f.Value.String() })
		return got, err
	}
	got, err := read()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"log-level": "warn", "max-connections": "7", "max-per-address": "9", "credit": "off", "listen": "127.0.0.1:7700"} {
		if got[name] != want {
			t.Errorf("%s is %q, want %q", name, got[name], want)
		}
	}
	for _, text := range []string{"listne 1\n", "max-per-address many\n"} {
		write(text)
		if _, err := read(); err == nil {
			t.Errorf("%q was taken", text)
		}
		var stderr bytes.Buffer
		if c := run(t.Context(), []string{"--config", path}, io.Discard, &stderr); c != 2 || !strings.Contains(stderr.String(), strings.Fields(text)[0]) {
			t.Errorf("%q: %d %s", text, c, stderr.String())
		}
	}
	if c := run(t.Context(), []string{"--config", path + "x"}, io.Discard, io.Discard); c != 2 {
		t.Errorf("a missing file: %d", c)
	}
}
