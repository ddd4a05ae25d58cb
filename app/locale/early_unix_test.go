//go:build !windows && !darwin

package locale_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"fyne.io/fyne/v2/lang"

	_ "neuron/app/locale"
)

// TestFyneReportsNoLocale: at each start with LANG=C.UTF-8, as in containers, there
// was an error about the locale "C". This test's own program is started anew, since
// Fyne looks before any test runs.
func TestFyneReportsNoLocale(t *testing.T) {
	t.Parallel()
	const inside = "NEURON_TEST_LOCALE"
	if os.Getenv(inside) != "" {
		t.Log(lang.SystemLocale()) // so that Fyne's package is linked
		return
	}
	for _, value := range []string{"", "C", "POSIX", "C.UTF-8", "en_US.UTF-8", "de_DE@euro"} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestFyneReportsNoLocale$", "-test.v")
		for _, e := range os.Environ() {
			if !strings.HasPrefix(e, "LC_") && !strings.HasPrefix(e, "LANG") {
				cmd.Env = append(cmd.Env, e)
			}
		}
		cmd.Env = append(cmd.Env, inside+"=1", "LANG="+value)
		out, err := cmd.CombinedOutput()
		if err != nil || strings.Contains(string(out), "Fyne error") || !strings.Contains(string(out), "PASS") {
			t.Errorf("LANG=%s: %v\n%s", value, err, out)
		}
	}
}
