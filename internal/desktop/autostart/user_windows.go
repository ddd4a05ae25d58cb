package autostart

import (
	"errors"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/registry"
)

// runKey is an entry in the registry.
type runKey struct{ run, approved, name string }

func ofUser() (system, error) {
	const base = `Software\Microsoft\Windows\CurrentVersion\`
	return runKey{base + `Run`, base + `Explorer\StartupApproved\Run`, "Neuron"}, nil
}

func (k runKey) read() (cmd []string, enabled, found bool, err error) {
	r, err := registry.OpenKey(registry.CURRENT_USER, k.run, registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return nil, false, false, nil
	}
	if err != nil {
		return nil, false, false, err
	}
	defer r.Close()
	line, _, err := r.GetStringValue(k.name)
	if errors.Is(err, registry.ErrNotExist) {
		return nil, false, false, nil
	}
	if err != nil {
		return nil, false, false, err
	}
	if cmd, err = windows.DecomposeCommandLine(line); err != nil {
		return nil, false, true, err
	}
	a, err := registry.OpenKey(registry.CURRENT_USER, k.approved, registry.QUERY_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return cmd, true, true, nil
	}
	if err != nil {
		return cmd, false, true, err
	}
	defer a.Close()
	value, _, err := a.GetBinaryValue(k.name)
	if err != nil && !errors.Is(err, registry.ErrNotExist) {
		return cmd, false, true, err
	}
	return cmd, approved(value), true, nil
}

// write also takes back what the Task Manager was told: the user has asked for
// the entry just now.
func (k runKey) write(cmd []string) error {
	r, _, err := registry.CreateKey(registry.CURRENT_USER, k.run, registry.SET_VALUE)
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.SetStringValue(k.name, joinWindows(cmd)); err != nil {
		return err
	}
	return k.forget(k.approved)
}

func (k runKey) remove() error {
	return errors.Join(k.forget(k.run), k.forget(k.approved))
}

func (k runKey) forget(key string) error {
	r, err := registry.OpenKey(registry.CURRENT_USER, key, registry.SET_VALUE)
	if errors.Is(err, registry.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer r.Close()
	if err := r.DeleteValue(k.name); err != nil && !errors.Is(err, registry.ErrNotExist) {
		return err
	}
	return nil
}
