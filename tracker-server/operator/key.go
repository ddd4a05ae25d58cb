package operator

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"errors"
	"io/fs"
	"os"
	"strings"

	"neuron/engine/protocol"
	"neuron/internal/logging"
	"neuron/tracker-server/datadir"
)

// KeyFile is the file of the data folder that holds the operator's key.
const KeyFile = "operator.key"

const (
	keyPrefix = "nop-"
	keyChars  = 52 // base32 of 32 random bytes
	maxFile   = 4096
)

// LoadOrCreateKey reads the operator's key of the data folder (mode 0600) or
// makes one; of several processes that do so at once, one makes it. A damaged
// file is an error. Error: data_folder, disk_full.
func LoadOrCreateKey(d *datadir.Dir) (key logging.Secret, err error) {
	err = d.Exclusive(KeyFile, func() error {
		if key, err = readKey(d.File(KeyFile)); errors.Is(err, fs.ErrNotExist) {
			key, err = writeKey(d)
		}
		return err
	})
	return key, err
}

// RotateKey replaces the key. A running tracker takes the new one at once, and
// all browsers have to log in again.
func RotateKey(d *datadir.Dir) (key logging.Secret, err error) {
	err = d.Exclusive(KeyFile, func() error {
		key, err = writeKey(d)
		return err
	})
	return key, err
}

// ReadKey reads the key of a data folder. The error of a missing file wraps
// fs.ErrNotExist.
func ReadKey(d *datadir.Dir) (logging.Secret, error) { return readKey(d.File(KeyFile)) }

func readKey(path string) (logging.Secret, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", datadir.Coded(err, "read "+path)
	}
	bad := protocol.Errorf(protocol.CodeDataFolder, "the file %s holds no operator's key; neuron-tracker operator-key --rotate makes a new one", path)
	if info.Size() > maxFile {
		return "", bad
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", datadir.Coded(err, "read "+path)
	}
	text := strings.TrimSpace(string(raw))
	if rest, ok := strings.CutPrefix(text, keyPrefix); !ok || len(rest) != keyChars {
		return "", bad
	}
	return logging.Secret(text), nil
}

func writeKey(d *datadir.Dir) (logging.Secret, error) {
	var random [sha256.Size]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	text := keyPrefix + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(random[:]))
	return logging.Secret(text), d.WriteFile(KeyFile, []byte(text+"\n"))
}

// sum is what is compared and kept of a key.
func sum(key string) [sha256.Size]byte { return sha256.Sum256([]byte(key)) }

// current is the hash of the key that holds now. The file is read each time,
// so that a rotation counts at once; attempts are limited.
func (a *Area) current() ([sha256.Size]byte, error) {
	key, err := readKey(a.cfg.KeyPath)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	return sum(key.Reveal()), nil
}

// checkKey compares a key that somebody sent, in constant time, and counts the
// attempt. Errors: unauthorized, rate_limited, data_folder.
func (a *Area) checkKey(from, key string) ([sha256.Size]byte, error) {
	if err := a.tries.check(from); err != nil {
		return [sha256.Size]byte{}, err
	}
	want, err := a.current()
	if err != nil {
		return want, err
	}
	have := sum(key)
	if subtle.ConstantTimeCompare(have[:], want[:]) != 1 {
		a.tries.failed(from)
		a.cfg.Logger.Warn("a wrong operator's key", "from", from)
		return want, protocol.Errorf(protocol.CodeUnauthorized, "this is not the operator's key; neuron-tracker operator-key prints it")
	}
	return want, nil
}
