package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"neuron/engine/protocol"
)

// terminal is a pseudo terminal: what a person types goes into keys, what shows
// comes out of it.
func terminal(t *testing.T) (keys, tty *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("SKIPPED: no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { keys.Close() })
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tty.Close() })
	return keys, tty
}

// typist types the next answer at each prompt.
type typist struct {
	keys    io.Writer
	answers []string
}

func (p *typist) Write(b []byte) (int, error) {
	if strings.HasSuffix(string(b), ": ") && len(p.answers) > 0 {
		io.WriteString(p.keys, p.answers[0])
		p.answers = p.answers[1:]
	}
	return len(b), nil
}

// TestPassphraseOnATerminal: it is asked for twice, does not show, and the
// terminal is afterwards as it was.
func TestPassphraseOnATerminal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answers []string
		want    string
		code    protocol.Code
	}{
		{[]string{"correct horsx\x7fe\r", "correct horse\r"}, "correct horse", ""},
		{[]string{"correct horse\r", "correct hors\r"}, "", protocol.CodeInvalidRequest},
		{[]string{"short\r"}, "", protocol.CodeInvalidRequest},
		{[]string{"correct\x03"}, "", protocol.CodeCancelled},
	} {
		keys, tty := terminal(t)
		before, err := unix.IoctlGetTermios(int(tty.Fd()), getTermios)
		if err != nil {
			t.Fatal(err)
		}
		got, err := passphrases{in: tty, ask: &typist{keys, c.answers}}.read("Passphrase: ", true)
		if c.code != "" && (err == nil || protocol.AsError(err).Code != c.code) || c.code == "" && (err != nil || string(got) != c.want) {
			t.Errorf("%q: %q, %v", c.answers, got, err)
		}
		after, err := unix.IoctlGetTermios(int(tty.Fd()), getTermios)
		if err != nil || *after != *before {
			t.Errorf("the terminal is left in another state: %v", err)
		}
		fmt.Fprint(tty, "END\n")
		shown := make([]byte, 4096)
		n, err := keys.Read(shown)
		if err != nil || !strings.HasPrefix(string(shown[:n]), "END") {
			t.Errorf("shown: %q, %v", shown[:n], err)
		}
	}
}
