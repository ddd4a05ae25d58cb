package shapes_test

import (
	"math"
	"testing"

	"neuron/internal/shapes"
)

// What the models' publishers and those of files say, within rounding.
func TestSizesAreThePublishedOnes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name        string
		all, active float64 // 1e9 weights; 0: not published
	}{
		{"deepseek-v4-flash", 284, 13}, {"glm-5.2", 744, 40}, {"ornith-9b", 9, 0}, {"ornith-35b", 34.66, 3}, {"ornith-397b", 397, 17},
	} {
		s, err := shapes.Find(c.name)
		if err != nil {
			t.Fatal(err)
		}
		all, active := s.Weights()
		t.Logf("%s: %.2f and %.2f", c.name, float64(all)/1e9, float64(active)/1e9)
		if got := float64(all) / 1e9; math.Abs(got-c.all) > 0.015*c.all {
			t.Errorf("%s has %.1f billion weights, published %.1f", c.name, got, c.all)
		}
		if got := float64(active) / 1e9; c.active > 0 && math.Abs(got-c.active) > 0.08*c.active {
			t.Errorf("%s uses %.1f billion weights for a token, published %.1f", c.name, got, c.active)
		}
		for _, r := range s.Recipes() {
			t.Logf("  %s: %.1f GB", r.Name, float64(s.Bytes(r))/1e9)
		}
	}
}
