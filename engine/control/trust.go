package control

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
)

// Trust remembers the tracker keys that this node has accepted. Calls come
// from the goroutine of Run, and Key also from New.
type Trust interface {
	// Key is the key of the tracker at url, or nil when none is known yet.
	Key(url string) (ed25519.PublicKey, error)
	// Remember keeps key for url; called once per tracker, after it accepted us.
	Remember(url string, key ed25519.PublicKey) error
}

// FileTrust keeps the keys in one JSON file, a map from URL to key.
type FileTrust struct{ path string }

// NewFileTrust uses dir/trackers.json; the file appears with the first key.
func NewFileTrust(dir string) *FileTrust {
	return &FileTrust{path: filepath.Join(dir, "trackers.json")}
}

// maxTrustFile bounds the file, in bytes.
const maxTrustFile = 256 << 10

func (t *FileTrust) load() (map[string][]byte, error) {
	f, err := os.Open(t.path)
	if errors.Is(err, os.ErrNotExist) {
		return map[string][]byte{}, nil
	}
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "read the tracker keys: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxTrustFile+1))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "read the tracker keys: %w", err)
	}
	m := map[string][]byte{}
	if len(b) > maxTrustFile || json.Unmarshal(b, &m) != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "%s is damaged; remove it to trust the tracker anew", t.path)
	}
	return m, nil
}

// Key implements Trust.
func (t *FileTrust) Key(url string) (ed25519.PublicKey, error) {
	m, err := t.load()
	if err != nil {
		return nil, err
	}
	k, ok := m[url]
	if ok && len(k) != ed25519.PublicKeySize {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "%s holds a key of %d bytes", t.path, len(k))
	}
	return k, nil
}

// Remember implements Trust; the file is replaced in one step.
func (t *FileTrust) Remember(url string, key ed25519.PublicKey) error {
	m, err := t.load()
	if err != nil {
		return err
	}
	m[url] = key
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "encode the tracker keys: %w", err)
	}
	if err := atomicfile.Write(t.path, b); err != nil {
		return protocol.Errorf(protocol.CodeDataFolder, "save the tracker keys: %w", err)
	}
	return nil
}
