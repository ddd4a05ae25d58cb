package words

import (
	"context"
	"os/exec"
	"strings"
	"time"
)

// systemLanguage is the first language of the user's list. Programs that were
// not started from a terminal have no LANG, and the list is not a file of a
// simple form.
func systemLanguage() string {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/usr/bin/defaults", "read", "-g", "AppleLanguages").Output()
	if err != nil {
		return "en"
	}
	return firstApple(string(out))
}

// firstApple reads a list as defaults prints it: lines of quoted tags within
// parentheses.
func firstApple(list string) string {
	return strings.Trim(strings.TrimSpace(strings.SplitN(strings.Trim(list, "(\n )"), "\n", 2)[0]), `",`)
}
