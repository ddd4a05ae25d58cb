package version

import (
	"runtime/debug"
	"strings"
	"testing"
)

func TestResolve(t *testing.T) {
	t.Parallel()
	rev := debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"}
	dirty := debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, tc := range []struct {
		name  string
		stamp string
		bi    *debug.BuildInfo
		want  string
	}{
		{"stamp wins", "1.2.3", &debug.BuildInfo{Main: debug.Module{Version: "v9.9.9"}}, "1.2.3"},
		{"module version", "", &debug.BuildInfo{Main: debug.Module{Version: "v1.4.0"}}, "v1.4.0"},
		{"commit", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{rev}}, "0.0.0-unstamped+g0123456789ab"},
		{"changed tree", "", &debug.BuildInfo{Settings: []debug.BuildSetting{rev, dirty}}, "0.0.0-unstamped+g0123456789ab.dirty"},
		{"short commit", "", &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "ab"}}}, "0.0.0-unstamped+gab"},
		{"nothing known", "", nil, "0.0.0-unstamped"},
	} {
		got := resolve(tc.stamp, tc.bi)
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
		if err := check(got); err != nil {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, v := range []string{"0.1.0", "v1.2.3", "0.1.0-dev+g1a2b3c4", "1.0.0-rc.1", "0.1.0-3-gabc1234-dirty"} {
		if err := check(v); err != nil {
			t.Errorf("%q refused: %v", v, err)
		}
	}
	for _, v := range []string{"", "1", "1.2", "1.2.3 ", "1.2.3\n", "1.2.3-", "1.2.3+", "1.2.x", "../1.2.3", "1.2.3-ü", "1.2.3-" + strings.Repeat("a", 65)} {
		if err := check(v); err == nil {
			t.Errorf("%q accepted", v)
		}
	}
}

func TestThisBuild(t *testing.T) {
	t.Parallel()
	if err := Check(); err != nil {
		t.Fatal(err)
	}
	i := Get()
	if i.Version != String() || !strings.HasPrefix(i.Go, "go") || i.OS == "" || i.Arch == "" {
		t.Errorf("incomplete: %+v", i)
	}
	if s := i.String(); !strings.HasPrefix(s, i.Version+" (") {
		t.Errorf("String() = %q", s)
	}
}
