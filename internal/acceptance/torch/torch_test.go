package torch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// python skips loudly where PyTorch is not installed.
func python(t *testing.T) string {
	t.Helper()
	p, err := interpreter(t.Context())
	if m := (*MissingError)(nil); errors.As(err, &m) {
		t.Skip("SKIPPED: " + m.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestReference holds each model that the reference can express against libllama,
// and shows that the tolerance would notice a mistake.
func TestReference(t *testing.T) {
	py := python(t)
	if err := loadLibrary(); err != nil {
		t.Fatal(err)
	}
	r, err := start(t.Context(), py, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, m := range models() {
		t.Run(m.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), m.name+".gguf")
			if err := m.write(path); err != nil {
				t.Fatal(err)
			}
			if err := r.load(path); err != nil {
				t.Fatal(err)
			}
			o, err := ours(path, exact, prompt(chunk*chunks))
			if err != nil {
				t.Fatal(err)
			}
			got, err := o.against(r)
			if err != nil {
				t.Fatal(err)
			}
			t.Log("exact:", got)
			if err := got.check(m.exact()); err != nil {
				t.Error(err)
			}
			// The rows before.
			for i := range o.rows {
				o.rows[i]--
			}
			if got, err := o.against(r); err != nil || got.rel < 1 {
				t.Errorf("logits of other positions are near: %s %v", got, err)
			}
			if got, err = r.against(path, route); err != nil {
				t.Fatal(err)
			}
			t.Log("route:", got)
			if m.experts {
				err = got.mostly()
			} else {
				err = got.check(toleranceRoute)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func TestCompareFindsWrongTokens(t *testing.T) {
	t.Parallel()
	a := [][]float32{{0, 1, 2}, {3, 0, 0}}
	if r, err := compare(a, a); err != nil || r.abs != 0 || r.agree != 2 || r.check(0) != nil {
		t.Errorf("%+v %v", r, err)
	}
	r, err := compare(a, [][]float32{{0, 1, 2}, {0, 0.5, 3}})
	if err != nil || r.agree != 1 || r.check(10) != nil {
		// The difference is 3, the gap 2.5: nothing is proven.
		t.Errorf("%+v %v", r, err)
	}
	b := [][]float32{{0, 1, 2}, {3, 3.1, 0}}
	c := [][]float32{{0, 1, 2}, {3.2, 3, 0}}
	if r, err = compare(b, c); err != nil || r.agree != 1 || r.wrong != 0 {
		t.Errorf("%+v %v", r, err)
	}
}

func TestReferenceFails(t *testing.T) {
	py := python(t)
	file := filepath.Join(t.TempDir(), "no.gguf")
	if err := os.WriteFile(file, []byte("GGUFxxxxyyyyyyyyzzzzzzzz"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := start(t.Context(), py, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := r.load(file); err == nil {
		t.Error("a broken file is no error")
	}
	if err := r.close(); err == nil || !strings.Contains(err.Error(), "not a GGUF") {
		t.Errorf("its end says %v", err)
	}
}
