package admit

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
)

func TestReadKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if keys, err := ReadKeys(dir); err != nil || keys != nil {
		t.Errorf("without a file: %v, %v", keys, err)
	}
	write := func(s string) ([]Key, error) {
		if err := os.WriteFile(filepath.Join(dir, KeysFile), []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		return ReadKeys(dir)
	}
	got, err := write(`[{"name":"a","key":"0123456789abcdef","per_minute":3},{"key":"0123456789abcdeg","concurrent":2}]`)
	want := []Key{{Name: "a", Secret: "0123456789abcdef", PerMinute: 3}, {Secret: "0123456789abcdeg", Concurrent: 2}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	for _, s := range []string{`{}`, `[{"key":"short"}]`, `[{"key":"0123456789abcdef"},{"key":"0123456789abcdef"}]`, `[{"key":"0123456789abcdef","per_minute":-1}]`, `[{"key":"0123456789abcdef","limit":1}]`} {
		if _, err := write(s); !errors.Is(err, &protocol.Error{Code: protocol.CodeInvalidRequest}) {
			t.Errorf("%s: %v", s, err)
		}
	}
}
