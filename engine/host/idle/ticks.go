package idle

import "time"

// since is the time between two counts of milliseconds that begin anew after 49
// days. A last input that is a little later than now is one of just now.
func since(now, last uint32) time.Duration {
	d := now - last
	if d > 1<<32-60_000 {
		d = 0
	}
	return time.Duration(d) * time.Millisecond
}
