package update

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/engine/update/feed"
)

// openTime is how long the system may take to open a package, and settle how
// long Neuron's own installer is watched for an early end.
const (
	openTime = 20 * time.Second
	settle   = 3 * time.Second
)

// InstallUpdate checks the package once more and begins to install it.
func (k *Keeper) InstallUpdate(ctx context.Context) (*localapi.Installing, error) {
	u := k.Update()
	if u.State != localapi.UpdateReady {
		return nil, protocol.Errorf(protocol.CodeNotFound, "no package is ready to be installed: fetch it first")
	}
	k.mu.Lock()
	r := k.found
	k.mu.Unlock()
	if r == nil || r.pack == nil || r.feed.Version != u.Release.Version {
		return nil, protocol.Errorf(protocol.CodeNotFound, "the release has changed; look again")
	}
	file := k.file(r.pack)
	if err := verify(ctx, file, r.pack); err != nil {
		if told := protocol.AsError(err); told.Code == protocol.CodeUpdateInvalid || told.Code == protocol.CodeNotFound {
			if rerr := os.Remove(file); rerr == nil {
				k.o.Logger.Warn("The package was changed on the disk and is removed", "error", err)
			}
			k.mu.Lock()
			k.ready, k.done = false, 0
			k.err, k.refused = told, true
			k.mu.Unlock()
			k.o.Changed()
		}
		return nil, err
	}
	argv, silent, command := way(r.pack, k.o.OS, file)
	k.o.Logger.Info("A package is being installed, as the user has asked", "version", r.feed.Version, "kind", string(r.pack.Kind), "silent", silent)
	// What went wrong the last time is not what goes wrong now.
	k.mu.Lock()
	k.err, k.refused = nil, false
	k.mu.Unlock()
	k.o.Changed()
	order := Command{Argv: argv, Wait: !silent}
	failed := func(err error) *protocol.Error { return unopened(file, command, err) }
	if silent {
		log := k.beginLog(r.feed.Version, argv)
		defer log.close()
		order.Output = log.file
		failed = func(err error) *protocol.Error { return log.failed(command, err) }
		// Most of its reasons come after Start has returned: sessions that do not
		// end, a disk that gets full.
		order.Failed = func(err error) { k.gaveUp(failed(err)) }
	}
	// The installer ends this process: it does not end with the request.
	if err := k.o.Start(context.WithoutCancel(ctx), order); err != nil {
		return nil, failed(err)
	}
	return &localapi.Installing{Version: r.feed.Version, File: file, Silent: silent, Command: command}, nil
}

// gaveUp keeps why the installer has ended without ending this process.
func (k *Keeper) gaveUp(err *protocol.Error) {
	k.o.Logger.Error("The update was not installed", "error", err)
	k.mu.Lock()
	k.err, k.refused = err, false
	k.mu.Unlock()
	k.o.Changed()
}

// unopened says what to do with a package that the system does not open.
func unopened(file, command string, err error) *protocol.Error {
	return protocol.Errorf(protocol.CodeUnsupported, "the package could not be opened: it is %s%s (%w)", file, inTerminal(command), err)
}

func inTerminal(command string) string {
	if command == "" {
		return ""
	}
	return "; in a terminal: " + command
}

// way is how a package is installed: the command that is run, whether it needs
// no more of the user, and what does the same in a terminal.
func way(p *feed.Package, system, file string) (argv []string, silent bool, command string) {
	switch p.Kind {
	case feed.KindSetup:
		return []string{file, "/S"}, true, `"` + file + `"`
	case feed.KindRun:
		// By the shell: the data folder may be on a disk without executables.
		return []string{"/bin/sh", file, "--quiet", "--nox11"}, true, "sh " + quote(file)
	case feed.KindDeb:
		command = "sudo apt install " + quote(file)
	case feed.KindRPM:
		command = "sudo dnf install " + quote(file)
	}
	switch system {
	case "windows":
		return []string{"explorer.exe", "/select," + file}, false, command
	case "darwin":
		if p.Kind == feed.KindDMG {
			return []string{"/usr/bin/open", file}, false, command
		}
		return []string{"/usr/bin/open", "-R", file}, false, command
	}
	if p.Kind == feed.KindTar {
		return []string{"xdg-open", filepath.Dir(file)}, false, command
	}
	return []string{"xdg-open", file}, false, command
}

// quote is a path for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// start runs a command apart from this process, which it may end. With Wait it
// returns the command's own end, else it only sees whether that comes at once. A
// goroutine waits for the end in any case, which may be after this process's.
func start(ctx context.Context, c Command) error {
	path, err := exec.LookPath(c.Argv[0])
	if err != nil {
		return err
	}
	cmd := exec.Command(path, c.Argv[1:]...)
	cmd.Dir = os.TempDir()
	cmd.SysProcAttr = alone()
	if c.Output != nil { // a nil *os.File is no nil io.Writer
		cmd.Stdout, cmd.Stderr = c.Output, c.Output
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := ended(cmd.Wait(), c.Argv[0])
		select {
		case done <- err:
		default: // start has returned
			if err != nil && c.Failed != nil {
				c.Failed(err)
			}
		}
	}()
	patience := settle
	if c.Wait {
		patience = openTime
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	case <-ctx.Done():
	}
	select {
	case err := <-done: // at the last moment
		return err
	case done <- nil: // full: an end that comes now is told by Failed
		return nil
	}
}

// ended judges an exit status; the explorer of Windows says 1 for success.
func ended(err error, name string) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && name == "explorer.exe" {
		return nil
	}
	return err
}
