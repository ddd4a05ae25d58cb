package desktop

import "os"

// useProxy makes this process and its children use the proxy of the settings;
// "" leaves the system's own. Go reads these variables once, at the first
// request, so that a change holds after the next start.
func useProxy(address string) {
	if address == "" {
		return
	}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY"} {
		// Setenv refuses names alone, and these are good.
		_ = os.Setenv(name, address)
	}
}
