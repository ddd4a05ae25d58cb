//go:build !windows && !darwin

package words

import "os"

// systemLanguage is the language of messages by the rules of gettext.
func systemLanguage() string {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		if v := os.Getenv(name); v != "" {
			return v
		}
	}
	return "en"
}
