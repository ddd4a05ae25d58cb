package network

import "testing"

func TestPortsOfMacOS(t *testing.T) {
	t.Parallel()
	const ports = "\nHardware Port: Ethernet\nDevice: en0\nEthernet Address: aa\n\nHardware Port: Wi-Fi\nDevice: en1\nEthernet Address: bb\n"
	for device, want := range map[string]string{"en0": Wired, "en1": Wireless, "utun3": Unknown, "": Unknown} {
		if got := parsePorts(ports, device); got != want {
			t.Errorf("%s: %s, want %s", device, got, want)
		}
	}
	if got := parseRoute("   route to: default\n    gateway: 192.168.1.1\n  interface: en1\n      flags: <UP>\n"); got != "en1" {
		t.Errorf("%q", got)
	}
	if got := parseRoute("nothing"); got != "" {
		t.Errorf("%q", got)
	}
}
