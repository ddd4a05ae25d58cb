package idle

import "testing"

func TestThisComputer(t *testing.T) {
	d, err := New().Read(t.Context())
	if err != nil || d < 0 {
		t.Fatal(d, err)
	}
	t.Log(d)
}
