package login

import (
	"errors"
	"slices"
	"testing"

	"neuron/internal/desktop/autostart"
	"neuron/internal/desktop/folders"
	"neuron/internal/desktop/launch"
)

func TestCommandStartsWithoutAWindow(t *testing.T) {
	t.Parallel()
	tray := func(name string) (string, error) {
		if name == launch.TrayName {
			return "/opt/neuron/neuron-tray", nil
		}
		return "", errors.New("missing")
	}
	window := func(name string) (string, error) {
		if name == launch.WindowName {
			return "/opt/neuron/neuron", nil
		}
		return "", errors.New("missing")
	}
	for _, c := range []struct {
		data string
		find func(string) (string, error)
		want []string
	}{
		{folders.DefaultData(), tray, []string{"/opt/neuron/neuron-tray", "--hidden"}},
		{"/elsewhere", tray, []string{"/opt/neuron/neuron-tray", "--hidden", "--data", "/elsewhere"}},
		{folders.DefaultData(), window, []string{"/opt/neuron/neuron", "--hidden"}},
	} {
		s := &Switch{Data: c.data, Find: c.find}
		if got, err := s.command(); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q, %v, want %q", got, err, c.want)
		}
	}
	s := &Switch{Find: func(string) (string, error) { return "", errors.New("missing") }}
	if _, err := s.command(); err == nil {
		t.Error("a command without a program")
	}
}

func TestASystemWithoutAListSaysSo(t *testing.T) {
	t.Parallel()
	s := &Switch{Entry: func() (*autostart.Entry, error) { return nil, errors.New("none") }}
	if on, err := s.On(); on || err == nil {
		t.Errorf("%v, %v", on, err)
	}
	if err := s.Set(true); err == nil {
		t.Error("it was turned on")
	}
}
