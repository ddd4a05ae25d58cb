package network

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"neuron/engine/host/source"
)

// Kind reads the routes and the devices of Linux below a root, which is "/" but
// in tests: wired, wireless or none, by the device of the best default route.
func Kind(root string) source.Source[string] {
	return source.Func[string]{From: "Linux", Ask: func(context.Context) (string, error) {
		device, err := defaultDevice(root)
		if err != nil || device == "" {
			return None, err
		}
		return kindOf(root, device), nil
	}}
}

// defaultDevice is the device of the IPv4 default route with the lowest metric,
// else of the IPv6 one; "" without any.
func defaultDevice(root string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(root, "proc", "net", "route"))
	if err != nil {
		return "", fmt.Errorf("routes: %w", err)
	}
	if d := best(string(raw), 0, 6, 10, func(f []string) bool { return len(f) >= 8 && f[1] == "00000000" && f[7] == "00000000" }); d != "" {
		return d, nil
	}
	raw, err = os.ReadFile(filepath.Join(root, "proc", "net", "ipv6_route"))
	if err != nil {
		return "", nil // no IPv6
	}
	const any6 = "00000000000000000000000000000000"
	return best(string(raw), 9, 5, 16, func(f []string) bool { return len(f) >= 10 && f[0] == any6 && f[1] == "00" && f[9] != "lo" }), nil
}

// best is the device, in a column, of the line with the lowest metric.
func best(text string, device, metric, base int, fits func([]string) bool) string {
	var name string
	lowest := ^uint64(0)
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if !fits(f) {
			continue
		}
		if m, err := strconv.ParseUint(f[metric], base, 32); err == nil && m < lowest {
			name, lowest = f[device], m
		}
	}
	return name
}

// kindOf tells a radio by its folder; a tunnel (VPN) is told by the devices of
// hardware that are up.
func kindOf(root, device string) string {
	folder := filepath.Join(root, "sys", "class", "net")
	if is(folder, device, "wireless") || is(folder, device, "phy80211") {
		return Wireless
	}
	if !is(folder, device, "tun_flags") && !strings.HasPrefix(device, "wg") && !strings.HasPrefix(device, "ppp") {
		return Wired
	}
	all, err := os.ReadDir(folder)
	if err != nil {
		return Unknown
	}
	kind := Unknown
	for _, e := range all {
		state, err := os.ReadFile(filepath.Join(folder, e.Name(), "operstate"))
		if err != nil || strings.TrimSpace(string(state)) != "up" || !is(folder, e.Name(), "device") {
			continue
		}
		if !is(folder, e.Name(), "wireless") {
			return Wired
		}
		kind = Wireless
	}
	return kind
}

func is(folder, device, file string) bool {
	_, err := os.Stat(filepath.Join(folder, device, file))
	return err == nil
}
