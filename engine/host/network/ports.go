package network

import "strings"

// parseRoute finds the device in what `route -n get default` of macOS prints,
// "" without a default route.
func parseRoute(text string) string {
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "interface: "); ok {
			return strings.TrimSpace(name)
		}
	}
	return ""
}

// parsePorts finds the kind of a device in what `networksetup
// -listallhardwareports` of macOS prints: "Hardware Port: Wi-Fi", then "Device:
// en0".
func parsePorts(text, device string) string {
	port := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if p, ok := strings.CutPrefix(line, "Hardware Port: "); ok {
			port = p
		}
		if d, ok := strings.CutPrefix(line, "Device: "); ok && d == device {
			if port == "Wi-Fi" || port == "AirPort" {
				return Wireless
			}
			return Wired
		}
	}
	return Unknown
}
