package identity

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
)

// KeyFile is the name of the key's file in the data folder: PKCS #8 (RFC 5958,
// RFC 8410) in PEM, readable by its owner only.
const KeyFile = "node.key"

// maxKeyFile bounds what is read; a real file has about 120 bytes.
const maxKeyFile = 4096

const pemType = "PRIVATE KEY"

// LoadOrCreate reads the identity of the data folder dir, or makes one at the
// first start. An existing file that cannot be read as a key is an error and
// stays untouched: a lost identity is lost credit. Errors have the code
// data_folder.
func LoadOrCreate(dir string) (*Identity, error) {
	path := filepath.Join(dir, KeyFile)
	id, err := load(path)
	if errors.Is(err, fs.ErrNotExist) {
		id, err = create(dir, path)
	}
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "node key %s: %w", path, err)
	}
	return id, nil
}

func load(path string) (*Identity, error) {
	key, err := ReadKey(path)
	if err != nil {
		return nil, err
	}
	return fromKey(key)
}

// ReadKey reads an Ed25519 key in the form of KeyFile and closes the file to
// other users. The error of a missing file wraps fs.ErrNotExist; no error
// quotes what is in the file.
func ReadKey(path string) (ed25519.PrivateKey, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	// Windows has no such bits; the data folder's access list rules there.
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return nil, fmt.Errorf("close it to other users: %w", err)
		}
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return nil, err
	}
	return parseKey(b)
}

// WriteKey replaces path by a file that ReadKey reads; after a crash it holds
// the old key or the new one, whole.
func WriteKey(path string, key ed25519.PrivateKey) error {
	b, err := encodeKey(key)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, b)
}

// parseKey reads the PEM form. Its errors never quote the file.
func parseKey(b []byte) (ed25519.PrivateKey, error) {
	if len(b) > maxKeyFile {
		return nil, fmt.Errorf("file is larger than %d bytes", maxKeyFile)
	}
	block, rest := pem.Decode(b)
	if block == nil || block.Type != pemType || len(rest) != 0 {
		return nil, errors.New("file is not one PEM private key")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("file is not a PKCS #8 key")
	}
	key, ok := k.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("key is not an Ed25519 key")
	}
	return key, nil
}

func encodeKey(key ed25519.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: pemType, Bytes: der}), nil
}

// create writes a new key beside its final name and moves it there when it is
// on the disk: a crash leaves either no key or a whole one.
func create(dir, path string) (id *Identity, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if id, err = New(); err != nil {
		return nil, err
	}
	return id, WriteKey(path, id.key)
}
