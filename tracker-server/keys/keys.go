// Package keys keeps the tracker's Ed25519 key, which signs leases and, unless
// a publisher has a key of his own, manifests. Nodes pin its public half, so
// losing the file means that all nodes must be told anew.
//
// The server and the publishing command import it. The private half never leaves the
// process and is never logged.
package keys

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
)

// FileName is the key's file in the data folder.
const FileName = "tracker.key"

const maxFile = 4096

// LoadOrCreate reads the key of the data folder (PKCS #8 in PEM, mode 0600) or
// makes one; of several processes that do so at once, one makes it and all get
// the same. A damaged file is an error, never replaced: a new key would cut off
// every node that trusts the old one.
func LoadOrCreate(d *datadir.Dir) (key ed25519.PrivateKey, err error) {
	err = d.Exclusive(FileName, func() error {
		if key, err = Load(d.File(FileName)); errors.Is(err, fs.ErrNotExist) {
			key, err = create(d)
		}
		return err
	})
	return key, err
}

// Load reads a key file, as LoadOrCreate makes them or as
// "openssl genpkey -algorithm ed25519" does. The error of a missing file wraps
// fs.ErrNotExist.
func Load(path string) (ed25519.PrivateKey, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, datadir.Coded(err, "read "+path)
	}
	if info.Size() > maxFile {
		return nil, damaged(path)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, datadir.Coded(err, "read "+path)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, damaged(path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, damaged(path)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, damaged(path)
	}
	return key, nil
}

func damaged(path string) error {
	return protocol.Errorf(protocol.CodeDataFolder,
		"the key file %s is damaged; restore it from a backup, or remove it to start with a new key that all nodes must then be given", path)
}

func create(d *datadir.Dir) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "make the tracker key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "encode the tracker key: %w", err)
	}
	if err := d.WriteFile(FileName, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})); err != nil {
		return nil, err
	}
	return key, nil
}
