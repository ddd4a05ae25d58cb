package exec

import (
	"fmt"
	"math"
	"testing"
)

func TestLogprobsAreSortedAndSumToOne(t *testing.T) {
	t.Parallel()
	logits := []float32{1, 3, 2, 3, -4}
	l := NewLogprobs(logits, 3)
	if got := fmt.Sprint(l.Top[0].ID, l.Top[1].ID, l.Top[2].ID); got != "1 3 2" {
		t.Errorf("top ids %s, want 1 3 2", got)
	}
	var sum float64
	for id := range logits {
		sum += math.Exp(float64(l.Of(int32(id))))
	}
	if math.Abs(sum-1) > 1e-6 {
		t.Errorf("probabilities sum to %g", sum)
	}
}
