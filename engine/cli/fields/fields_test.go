package fields

import (
	"testing"

	"neuron/engine/policy"
	"neuron/engine/protocol"
)

func TestParseSize(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int64{
		"0": 0, "7": 7, "500kB": 500_000, "2MB": 2_000_000, "8 GB": 8_000_000_000, "1.5g": 1_500_000_000, "64KiB": 65536, "2MiB/s": 2 << 20, "1TB": 1e12, "-3": -3,
	} {
		if got, ok := parseSize(in); !ok || got != want {
			t.Errorf("%q: %d, %t; want %d", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "MB", "many", "1e3", "0x10", "1 2", "NaN", "5XB", "99999999999999999999", "9000000000GB", "inf", "-1.5MB", "1_0"} {
		if got, ok := parseSize(in); ok {
			t.Errorf("%q was read as %d", in, got)
		}
	}
}

func FuzzWith(f *testing.F) {
	f.Fuzz(func(t *testing.T, name, value string) {
		s, err := With(policy.Defaults(), name, value)
		if err != nil && protocol.AsError(err).Code != protocol.CodeInvalidRequest {
			t.Errorf("%q=%q: %v", name, value, err)
		}
		if err == nil && (s.Form != policy.Form || s.Revision != 0 || s.Pause != (policy.Pause{})) {
			t.Errorf("%q=%q changed %+v", name, value, s)
		}
	})
}
