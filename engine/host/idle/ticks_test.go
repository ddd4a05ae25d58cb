package idle

import (
	"testing"
	"time"
)

func TestTicksBeginAnewAfter49Days(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		now, last uint32
		want      time.Duration
	}{
		{5000, 2000, 3 * time.Second},
		{7, 7, 0},
		{1000, 1<<32 - 1000, 2 * time.Second},
		{2000, 2010, 0}, // the input came between the two questions
		{1 << 31, 0, 1 << 31 * time.Millisecond},
	} {
		if got := since(c.now, c.last); got != c.want {
			t.Errorf("%d after %d: %s, want %s", c.now, c.last, got, c.want)
		}
	}
}
