// Package wallet keeps, in files of this computer, what a person owns nodes
// with: the owner key, its encrypted copy for other computers, and a note of
// what this computer has agreed with owners and trackers.
//
// engine/ownership, the composition and the command line import it. It knows no
// network, and hands the private key to nobody but its callers in this process;
// the key is never logged.
package wallet

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"neuron/engine/protocol"
	"neuron/internal/filelock"
	"neuron/internal/identity"
	"neuron/internal/owner"
)

// Names in a folder.
const (
	// KeyFile is the owner key: PKCS #8 in PEM, as a node's.
	KeyFile = "owner.key"
	// lockFile is held while a file of the package is made or replaced.
	lockFile = "owner.lock"
)

// Wallet is the owner key of a folder. The key is read anew at each use, so
// that a key that another process recovered holds from then on. Safe for
// concurrent use, by several processes too.
type Wallet struct{ dir string }

// At is the wallet of a folder; nothing is read or made.
func At(dir string) *Wallet { return &Wallet{dir: dir} }

// Open makes the key at the first start; of several processes that do so at
// once one makes it. A file that is not a key is an error, never replaced: a
// lost key is lost credit. The error has the code data_folder.
func Open(dir string) (*Wallet, error) {
	w := At(dir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, w.failed(err)
	}
	err := w.exclusive(func() error {
		_, err := identity.ReadKey(w.path())
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_, key, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return fmt.Errorf("draw the key: %w", err)
		}
		return identity.WriteKey(w.path(), key)
	})
	if err != nil {
		return nil, w.failed(err)
	}
	return w, nil
}

func (w *Wallet) path() string { return filepath.Join(w.dir, KeyFile) }

func (w *Wallet) exclusive(f func() error) error { return exclusive(w.dir, f) }

// exclusive runs f under the lock of a folder; f is short.
func exclusive(dir string, f func() error) error {
	l, err := filelock.Wait(filepath.Join(dir, lockFile))
	if err != nil {
		return err
	}
	defer l.Unlock()
	return f()
}

func (w *Wallet) failed(err error) error {
	var e *protocol.Error
	if errors.As(err, &e) {
		return err
	}
	return protocol.Errorf(protocol.CodeDataFolder, "owner key %s: %w", w.path(), err)
}

// Key reads the owner's private key; the caller must not keep, log or store it.
// Errors: not_found without a key, data_folder.
func (w *Wallet) Key() (ed25519.PrivateKey, error) {
	key, err := identity.ReadKey(w.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, protocol.Errorf(protocol.CodeNotFound, "there is no owner key in %s", w.dir)
	}
	if err != nil {
		return nil, w.failed(err)
	}
	return key, nil
}

// Owner is the id of the owner key. Errors: those of Key.
func (w *Wallet) Owner() (owner.ID, error) {
	key, err := w.Key()
	if err != nil {
		return "", err
	}
	return owner.IDOf(key.Public().(ed25519.PublicKey)), nil
}

// Recovered says what Recover did.
type Recovered struct {
	Owner owner.ID `json:"owner"`
	// Changed is false when the folder had this key already.
	Changed bool `json:"changed"`
	// Saved is the file with the key that was replaced, "" when there was none.
	Saved string `json:"saved,omitempty"`
}

// Recover puts the key of an exported file into the folder. Another key that is
// there is replaced only if replace says so, and saved beside it before.
// Errors: those of Unseal, conflict for another key without replace,
// data_folder.
func (w *Wallet) Recover(sealed, passphrase []byte, replace bool) (Recovered, error) {
	key, err := Unseal(sealed, passphrase)
	if err != nil {
		return Recovered{}, err
	}
	id := owner.IDOf(key.Public().(ed25519.PublicKey))
	out := Recovered{Owner: id}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return out, w.failed(err)
	}
	err = w.exclusive(func() error {
		old, err := identity.ReadKey(w.path())
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case old.Equal(key):
			return nil
		default:
			was := owner.IDOf(old.Public().(ed25519.PublicKey))
			if !replace {
				return protocol.Errorf(protocol.CodeConflict,
					"this computer has the key of owner %s; the file holds that of %s", was.Short(), id.Short())
			}
			// A key that was saved once is the same key under the same name.
			out.Saved = w.path() + "." + string(was)
			if err := identity.WriteKey(out.Saved, old); err != nil {
				return err
			}
		}
		out.Changed = true
		return identity.WriteKey(w.path(), key)
	})
	if err != nil {
		return Recovered{}, w.failed(err)
	}
	return out, nil
}

// Export is the key as an encrypted file for Recover; see Seal. Errors: those
// of Key and Seal.
func (w *Wallet) Export(passphrase []byte) ([]byte, error) {
	key, err := w.Key()
	if err != nil {
		return nil, err
	}
	return Seal(key, passphrase)
}
