package desktop

import (
	"bytes"
	"strings"
	"testing"
)

func TestItems(t *testing.T) {
	t.Parallel()
	read := func(in string) (names []string, err error) {
		err = items(strings.NewReader(in), "nodes", func(x *struct {
			Role string `json:"role"`
		}) {
			names = append(names, x.Role)
		})
		return names, err
	}
	if got, err := read(`{"more":{"nodes":[{"role":"x"}]},"nodes":[{"role":"a","other":[1]},{}],"rest":1}`); err != nil || strings.Join(got, ",") != "a," {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := read(`{}`); err != nil || got != nil {
		t.Errorf("%q, %v", got, err)
	}
	for _, bad := range []string{"", "[]", `{"nodes":{}}`, `{"nodes":[1]}`, `{"nodes":[{}`, `{"nodes":[{}]`, `{"nodes":null}`, `{"nodes":[` + strings.Repeat("{},", maxItems+1) + `{}]}`} {
		if _, err := read(bad); err == nil {
			t.Errorf("%.40q was read", bad)
		}
	}
}

// FuzzItems: what a tracker sends is read or refused.
func FuzzItems(f *testing.F) {
	f.Fuzz(func(t *testing.T, raw []byte) {
		n := 0
		err := items(bytes.NewReader(raw), "models", func(*struct {
			Role string `json:"role"`
		}) {
			n++
		})
		if err == nil && n > len(raw) {
			t.Errorf("%d items out of %d bytes", n, len(raw))
		}
	})
}
