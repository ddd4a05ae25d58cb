package power

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"neuron/engine/host/source"
)

// Supplies is where Linux shows power supplies.
const Supplies = "/sys/class/power_supply"

// Battery reads the power supplies in a folder, which is Supplies but in tests.
func Battery(folder string) source.Source[State] {
	return source.Func[State]{From: "Linux", Ask: func(context.Context) (State, error) { return readSupplies(folder) }}
}

// readSupplies puts all supplies together: the computer runs on battery when it
// has one and no other supply is online. Where only batteries are shown, the
// first that discharges decides.
func readSupplies(folder string) (State, error) {
	all, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return State{}, source.NotTold("Linux shows no power supplies")
	}
	if err != nil {
		return State{}, fmt.Errorf("power supplies: %w", err)
	}
	s := State{Percent: -1}
	lines, online, discharging := 0, false, false
	sum, counted := 0, 0
	for _, e := range all {
		p := supply(filepath.Join(folder, e.Name()))
		switch kind := p.text("type"); {
		case p.text("scope") == "Device": // of a mouse, a headset
		case kind == "Battery" && p.text("present") != "0", kind == "UPS":
			s.Battery = true
			switch p.text("status") {
			case "Discharging":
				discharging = true
			case "Charging":
				s.Charging = true
			}
			if n, err := strconv.Atoi(p.text("capacity")); err == nil && percent(n) >= 0 {
				sum += n
				counted++
			}
		case kind == "Mains", strings.HasPrefix(kind, "USB"), kind == "Wireless":
			lines++
			// 1 is one fixed line, 2 a programmable one.
			if o := p.text("online"); o == "1" || o == "2" {
				online = true
			}
		}
	}
	if counted > 0 {
		s.Percent = sum / counted
	}
	if s.Battery {
		s.OnBattery = !online && (lines > 0 || discharging)
	}
	return s, nil
}

type supply string

// text is the content of a file, "" when it cannot be read: drivers differ in
// what they have, and a battery may be pulled out between two files.
func (p supply) text(name string) string {
	raw, err := os.ReadFile(filepath.Join(string(p), name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(raw))
}
