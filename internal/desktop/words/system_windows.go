package words

import "golang.org/x/sys/windows"

// systemLanguage is the first language of the user's list.
func systemLanguage() string {
	l, err := windows.GetUserPreferredUILanguages(windows.MUI_LANGUAGE_NAME)
	if err != nil || len(l) == 0 {
		return "en"
	}
	return l[0]
}
