package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/desktop/settings"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/program"
	"neuron/engine/protocol"
)

// engine starts a desktop engine as a process and waits for its first line; end
// asks it to stop and wants status 0.
func engine(t *testing.T, data string) (kill, end func()) {
	t.Helper()
	c := command(t, "desktop", "--data", data, "--listen", "127.0.0.1:0")
	c.Env = append(c.Env, "NEURON_LOG=info")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	c.Stderr = &stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if f := strings.Fields(line); err != nil || len(f) != 6 || f[0] != "desktop" || f[5] != data {
		t.Fatalf("first line %q, %v\n%s", line, err, stderr.String())
	}
	kill = func() {
		c.Process.Kill()
		c.Wait()
	}
	end = func() {
		t.Helper()
		if _, errs, status := result(t, "", "stop", "--data", data); status != exitOK {
			t.Errorf("stop: %d\n%s", status, errs)
		}
		if err := c.Wait(); err != nil {
			t.Errorf("%v\n%s", err, stderr.String())
		}
	}
	return kill, end
}

// TestDesktopCommands: everything that the window sets, commands set too.
func TestDesktopCommands(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	_, end := engine(t, data)
	run := func(want string, args ...string) {
		t.Helper()
		stdout, stderr, status := result(t, "", append(args, "--data", data)...)
		if status != exitOK || !strings.Contains(stdout, want) || strings.Contains(stdout, "%!") {
			t.Errorf("%v: status %d, want %q:\n%s%s", args, status, want, stdout, stderr)
		}
	}
	// What was ordered is decided upon a moment later.
	soon := func(want string) {
		t.Helper()
		stdout := ""
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && !strings.Contains(stdout, want); {
			stdout, _, _ = result(t, "", "status", "--data", data)
		}
		if !strings.Contains(stdout, want) {
			t.Errorf("status has no %q:\n%s", want, stdout)
		}
	}
	refused := func(code protocol.Code, args ...string) {
		t.Helper()
		if stdout, stderr, status := result(t, "", append(args, "--data", data)...); status != exitFail || !strings.Contains(stderr, "("+string(code)+")") {
			t.Errorf("%v: status %d, want %s:\n%s%s", args, status, code, stdout, stderr)
		}
	}
	soon("Sharing is turned off.")
	run("sharing is on", "share", "on")
	soon("The network cannot be reached.")
	run("sharing is paused until ", "pause", "1h")
	soon("Paused by you.")
	run("sharing is paused until ", "pause", "tomorrow")
	run("until you resume it", "pause", "until-resumed")
	run("the pause is over", "resume")
	run("sharing is off", "share", "off")
	run("up_rate  1500000", "limits", "up_rate", "1.5MB/s")
	run("memory_bytes  8589934592", "limits", "memory_bytes", "8GiB")
	run("memory_bytes  none", "limits", "memory_bytes", "none")
	run("threads  2", "limits", "threads", "2")
	run("up_rate       1500000", "limits")
	run("rules.on_battery  on", "settings", "rules.on_battery", "on")
	run("rules.apps  doom,quake", "settings", "rules.apps", "doom, quake")
	run("tracker  http://127.0.0.1:1", "settings", "tracker", "http://127.0.0.1:1")
	run("schedule.hours  1,2,3,4,5,6,7", "settings", "schedule.hours", "1,2,3,4,5,6,7")
	run("cores", "hardware")
	run("# Health", "diagnostics")
	run("not available in this build", "update")
	run("updates.check  off", "settings", "updates.check", "off")
	refused(protocol.CodeUnsupported, "update", "check")
	refused(protocol.CodeUnsupported, "update", "download")
	refused(protocol.CodeNotFound, "update", "install")
	refused(protocol.CodeNotFound, "update", "dismiss")
	refused(protocol.CodeInvalidRequest, "limits", "threads", "many")
	refused(protocol.CodeInvalidRequest, "limits", "up_rate", "5")
	refused(protocol.CodeInvalidRequest, "limits", "wings", "2")
	refused(protocol.CodeInvalidRequest, "settings", "share", "perhaps")
	refused(protocol.CodeInvalidRequest, "settings", "revision", "7")
	refused(protocol.CodeInvalidRequest, "settings", "pause.until_resumed", "on")
	refused(protocol.CodeInvalidRequest, "pause", "5s")
	refused(protocol.CodeInvalidRequest, "pause", "later")
	refused(protocol.CodeUnavailable, "network")
	refused(protocol.CodeUnavailable, "plan")
	refused(protocol.CodeAlreadyRunning, "desktop")

	stdout, _, _ := result(t, "", "settings", "--json", "--data", data)
	var s policy.Settings
	if err := json.Unmarshal([]byte(stdout), &s); err != nil || s.Limits.UpRate != 1_500_000 || !s.Rules.OnBattery || len(s.Rules.Apps) != 2 || s.Schedule.Hours[6] != 7 || s.Check() != nil {
		t.Errorf("%v\n%s", err, stdout)
	}
	file := filepath.Join(t.TempDir(), "report.txt")
	if _, stderr, status := result(t, "", "diagnostics", "--out", file, "--data", data); status != exitOK {
		t.Errorf("%s", stderr)
	}
	if raw, err := os.ReadFile(file); err != nil || !strings.Contains(string(raw), "Neuron report") || strings.Contains(string(raw), "doom") {
		t.Errorf("%.500s, %v", raw, err)
	}
	end()
	if _, err := os.Stat(filepath.Join(data, "logs", "engine.log")); err != nil {
		t.Errorf("no log: %v", err)
	}
}

// TestDesktopCommandsNeedADesktop: without an engine, and with a plain one, the
// error says what is missing.
func TestDesktopCommandsNeedADesktop(t *testing.T) {
	t.Parallel()
	commands := [][]string{{"pause", "1h"}, {"resume"}, {"limits"}, {"limits", "threads", "1"}, {"settings"}, {"hardware"}, {"network"}, {"diagnostics"}}
	empty, plain := t.TempDir(), t.TempDir()
	n, err := program.NewNode(t.Context(), program.NodeOptions{Data: plain, Model: guide, Layers: "0-4"})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for _, c := range commands {
		if _, stderr, status := result(t, "", append(c, "--data", empty)...); status != exitFail || !strings.Contains(stderr, "no engine is running") {
			t.Errorf("%v without an engine: %d\n%s", c, status, stderr)
		}
		if _, stderr, status := result(t, "", append(c, "--data", plain)...); status != exitFail || !strings.Contains(stderr, "(unsupported)") || !strings.Contains(stderr, "neuron-engine run") {
			t.Errorf("%v with a plain node: %d\n%s", c, status, stderr)
		}
	}
}

// TestSettingsSurviveAKill: what was answered is on the disk.
func TestSettingsSurviveAKill(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	kill, _ := engine(t, data)
	for _, args := range [][]string{{"share", "on"}, {"limits", "sessions", "3"}} {
		if _, stderr, status := result(t, "", append(args, "--data", data)...); status != exitOK {
			t.Fatalf("%s", stderr)
		}
	}
	kill()
	if _, stderr, status := result(t, "", "status", "--data", data); status != exitFail || !strings.Contains(stderr, "no engine is running") {
		t.Errorf("after the kill: %d\n%s", status, stderr)
	}
	// A file that a crash may leave behind harms nothing.
	if err := os.WriteFile(filepath.Join(data, "."+settings.File+".123"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, end := engine(t, data)
	c, err := localapi.Dial(data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Settings(t.Context())
	if err != nil || !s.Share || s.Limits.Sessions != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	st, err := c.Status(t.Context())
	if err != nil || len(st.Health) != 0 {
		t.Errorf("%+v, %v", st.Health, err)
	}
	end()
}
