//go:build !windows && !darwin

package locale

import "testing"

func TestReadable(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{nil, ""},
		{map[string]string{"LANG": "C"}, ""},
		{map[string]string{"LC_ALL": "POSIX"}, ""},
		{map[string]string{"LANG": "C.UTF-8"}, "en"},
		{map[string]string{"LANG": "de_DE.UTF-8", "LC_ALL": "C.utf8"}, "en"},
		{map[string]string{"LANG": "C.UTF-8", "LANGUAGE": "fr"}, ""},
		{map[string]string{"LANG": "C.UTF-8", "LC_MESSAGES": "fr_FR.UTF-8"}, ""},
		{map[string]string{"LANG": "de_DE.UTF-8"}, ""},
		{map[string]string{"LANG": "de_DE@euro"}, "de_DE"},
		{map[string]string{"LANG": "de_DE.UTF-8@euro"}, "de_DE"},
		{map[string]string{"LANG": "C@x"}, "en"},
	} {
		if got := readable(func(name string) string { return c.env[name] }); got != c.want {
			t.Errorf("%v: %q, want %q", c.env, got, c.want)
		}
	}
}
