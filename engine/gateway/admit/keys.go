package admit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"neuron/engine/protocol"
)

// KeysFile holds further keys of a gateway's API, each with limits of its own:
// a list of objects with name, key, concurrent and per_minute. Who runs the
// gateway writes it, readable for that user only.
const KeysFile = "api-keys.json"

// maxKeys and maxFile bound the file.
const (
	maxKeys  = 1000
	maxFile  = 1 << 20
	leastKey = 16 // characters
)

// ReadKeys reads the further keys of a gateway from its data folder; none
// without the file.
func ReadKeys(dir string) ([]Key, error) {
	path := filepath.Join(dir, KeysFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "the keys of the API cannot be read: %w", err)
	}
	bad := func(format string, args ...any) ([]Key, error) {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, KeysFile+": "+format, args...)
	}
	var list []struct {
		Name       string `json:"name"`
		Key        string `json:"key"`
		Concurrent int    `json:"concurrent"`
		PerMinute  int    `json:"per_minute"`
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if len(raw) > maxFile || d.Decode(&list) != nil {
		return bad("it must be a list of objects with name, key, concurrent and per_minute")
	}
	if len(list) > maxKeys {
		return bad("at most %d keys are allowed", maxKeys)
	}
	seen := map[string]bool{}
	keys := make([]Key, len(list))
	for i, k := range list {
		switch {
		case len(k.Key) < leastKey || seen[k.Key]:
			return bad("entry %d: a key has at least %d characters and stands there once", i, leastKey)
		case k.Concurrent < 0 || k.PerMinute < 0:
			return bad("entry %d: limits are 0 (none) or more", i)
		}
		seen[k.Key] = true
		keys[i] = Key{Name: k.Name, Secret: k.Key, Concurrent: k.Concurrent, PerMinute: k.PerMinute}
	}
	return keys, nil
}
