package web

import "testing"

func TestMissingLayers(t *testing.T) {
	t.Parallel()
	for want, replicas := range map[string][]int{
		"": {1, 2, 3}, "0-1": {0, 1}, "0-3": {0, 0, 0}, "1-2, 4-6": {1, 0, 2, 1, 0, 0},
	} {
		if got := MissingLayers(replicas); got != want {
			t.Errorf("%v: %q, want %q", replicas, got, want)
		}
	}
	if got := MissingLayers(nil); got != "" {
		t.Errorf("no layers: %q", got)
	}
}

func TestMatches(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]bool{`"a"`: true, `W/"a"`: true, `"b", "a"`: true, "*": true, `"b"`: false, "": false, "a": false} {
		if matches(header, `"a"`) != want {
			t.Errorf("%s: not %t", header, want)
		}
	}
}
