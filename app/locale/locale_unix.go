//go:build !windows && !darwin

package locale

import (
	"os"
	"strings"
)

func init() {
	if language := readable(os.Getenv); language != "" {
		// An error would be about the name, which is a constant.
		_ = os.Setenv("LANGUAGE", language)
	}
}

// readable is the LANGUAGE to set, "" for none: Fyne asks that before the others,
// and nobody else of ours does.
func readable(env func(string) string) string {
	if env("LANGUAGE") != "" {
		return ""
	}
	locale := ""
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if locale = env(name); locale != "" {
			break
		}
	}
	name, _, special := strings.Cut(locale, "@")
	name, _, encoded := strings.Cut(name, ".")
	switch {
	case name == "C" || name == "POSIX":
		if special || encoded {
			return "en"
		}
		return "" // this much is understood
	case special:
		return name
	}
	return ""
}
