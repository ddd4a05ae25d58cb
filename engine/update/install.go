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
	// The installer ends this process: it does not end with the request.
	if err := k.o.Start(context.WithoutCancel(ctx), argv, !silent); err != nil {
		text := "the package could not be opened: it is " + file
		if command != "" {
			text += "; in a terminal: " + command
		}
		return nil, protocol.Errorf(protocol.CodeUnsupported, "%s (%w)", text, err)
	}
	return &localapi.Installing{Version: r.feed.Version, File: file, Silent: silent, Command: command}, nil
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

// start runs a command apart from this process, which it may end. With wait it
// returns the command's own end, else it only sees whether that comes at once. A
// goroutine waits for the end in any case, which may be after this process's.
func start(ctx context.Context, argv []string, wait bool) error {
	path, err := exec.LookPath(argv[0])
	if err != nil {
		return err
	}
	cmd := exec.Command(path, argv[1:]...)
	cmd.Dir = os.TempDir()
	cmd.SysProcAttr = alone()
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	patience := settle
	if wait {
		patience = openTime
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case err := <-done:
		return ended(err, argv[0])
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil
}

// ended judges an exit status; the explorer of Windows says 1 for success.
func ended(err error, name string) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 1 && name == "explorer.exe" {
		return nil
	}
	return err
}
