package wallet

import (
	"bytes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"strconv"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/chacha20poly1305"

	"neuron/engine/protocol"
	"neuron/internal/owner"
)

// The file is a sentence for people and one PEM block (RFC 7468 with the
// headers of RFC 1421). Its headers say how the passphrase becomes a key and
// are authenticated with it; its body is the key's seed of 32 bytes, encrypted.
const (
	sealType    = "NEURON ENCRYPTED OWNER KEY"
	sealVersion = "1"
	sealKDF     = "argon2id"
	sealCipher  = "xchacha20-poly1305"

	// MaxSealed bounds a file that Unseal takes, in bytes.
	MaxSealed = 16 << 10
	// MinPassphrase and maxPassphrase bound a passphrase, in bytes.
	MinPassphrase = 8
	maxPassphrase = 1024

	saltLen = 16
)

// kdf are the costs of argon2id.
type kdf struct {
	passes  uint32
	memory  uint32 // KiB
	threads uint8
}

// defaultKDF is the second choice of RFC 9106, section 4, for computers that
// may be small: about a tenth of a second on a desktop.
var defaultKDF = kdf{passes: 3, memory: 64 << 10, threads: 4}

// maxKDF is the most that a file of somebody else may ask for: 1 GiB, some ten
// seconds.
var maxKDF = kdf{passes: 16, memory: 1 << 20, threads: 16}

func (k kdf) check() error {
	if k.passes < 1 || k.passes > maxKDF.passes || k.threads < 1 || k.threads > maxKDF.threads ||
		k.memory < 8*uint32(k.threads) || k.memory > maxKDF.memory {
		return fmt.Errorf("costs of argon2id are out of bounds: %d passes, %d KiB, %d threads", k.passes, k.memory, k.threads)
	}
	return nil
}

// Seal encrypts the key for a file that a person keeps. Error: invalid_request
// for a passphrase of less than MinPassphrase bytes.
func Seal(key ed25519.PrivateKey, passphrase []byte) ([]byte, error) {
	return seal(key, passphrase, defaultKDF)
}

func seal(key ed25519.PrivateKey, passphrase []byte, costs kdf) ([]byte, error) {
	if err := checkPassphrase(passphrase); err != nil {
		return nil, err
	}
	salt, nonce := make([]byte, saltLen), make([]byte, chacha20poly1305.NonceSizeX)
	rand.Read(salt) // never fails (crypto/rand)
	rand.Read(nonce)
	id := owner.IDOf(key.Public().(ed25519.PublicKey))
	block := &pem.Block{Type: sealType, Headers: map[string]string{
		"Version": sealVersion, "Owner": string(id), "KDF": sealKDF, "Passes": strconv.FormatUint(uint64(costs.passes), 10),
		"Memory-KiB": strconv.FormatUint(uint64(costs.memory), 10), "Threads": strconv.FormatUint(uint64(costs.threads), 10),
		"Salt": hex.EncodeToString(salt), "Cipher": sealCipher, "Nonce": hex.EncodeToString(nonce),
	}}
	box, err := newBox(passphrase, salt, costs)
	if err != nil {
		return nil, err
	}
	block.Bytes = box.Seal(nil, nonce, key.Seed(), sealedHeaders(block))
	var out bytes.Buffer
	fmt.Fprintf(&out, "Owner key of Neuron, encrypted with a passphrase.\n\n"+
		"Owner: %s\n\n"+
		"Who has this file and its passphrase owns this owner's nodes and credit. Without\n"+
		"the passphrase it is of no use to anybody: nobody can recover it for you.\n"+
		"To use the key on a computer: neuron-engine owner recover FILE\n\n", id)
	if err := pem.Encode(&out, block); err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "encode the owner key: %w", err)
	}
	return out.Bytes(), nil
}

func newBox(passphrase, salt []byte, k kdf) (cipher.AEAD, error) {
	box, err := chacha20poly1305.NewX(argon2.IDKey(passphrase, salt, k.passes, k.memory, k.threads, chacha20poly1305.KeySize))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "prepare the cipher: %w", err)
	}
	return box, nil
}

func checkPassphrase(p []byte) error {
	if len(p) < MinPassphrase || len(p) > maxPassphrase || !utf8.Valid(p) {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a passphrase has %d to %d bytes of text", MinPassphrase, maxPassphrase)
	}
	return nil
}

// headerNames are all that a block has; what is authenticated has them in this
// order.
var headerNames = [...]string{"Version", "Owner", "KDF", "Passes", "Memory-KiB", "Threads", "Salt", "Cipher", "Nonce"}

// sealedHeaders are authenticated with the body.
func sealedHeaders(b *pem.Block) []byte {
	out := []byte(sealType + "\x00")
	for _, n := range headerNames {
		out = fmt.Appendf(out, "%s=%s\n", n, b.Headers[n])
	}
	return out
}

// sealed is a parsed file.
type sealed struct {
	block *pem.Block
	owner owner.ID
	costs kdf
	salt  []byte
	nonce []byte
}

// parseSealed checks everything that can be checked without the passphrase.
func parseSealed(b []byte) (*sealed, error) {
	bad := func(format string, args ...any) (*sealed, error) {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the file is not an exported owner key: "+format, args...)
	}
	if len(b) > MaxSealed {
		return bad("it is larger than %d bytes", MaxSealed)
	}
	block, _ := pem.Decode(b)
	if block == nil || block.Type != sealType {
		return bad("it has no block %q", sealType)
	}
	if v := block.Headers["Version"]; v != sealVersion {
		return bad("version %.20q, this program knows %s", v, sealVersion)
	}
	if len(block.Headers) != len(headerNames) || block.Headers["KDF"] != sealKDF || block.Headers["Cipher"] != sealCipher {
		return bad("unknown headers or methods")
	}
	out := &sealed{block: block}
	var err error
	if out.owner, err = owner.ParseID(block.Headers["Owner"]); err != nil {
		return bad("the owner's id is malformed")
	}
	num := func(name string, bits int) uint64 {
		n, perr := strconv.ParseUint(block.Headers[name], 10, bits)
		if perr != nil && err == nil {
			err = fmt.Errorf("%s is not a number", name)
		}
		return n
	}
	out.costs = kdf{passes: uint32(num("Passes", 32)), memory: uint32(num("Memory-KiB", 32)), threads: uint8(num("Threads", 8))}
	if err == nil {
		err = out.costs.check()
	}
	if err != nil {
		return bad("%w", err)
	}
	if out.salt, err = hex.DecodeString(block.Headers["Salt"]); err != nil || len(out.salt) != saltLen {
		return bad("the salt is malformed")
	}
	if out.nonce, err = hex.DecodeString(block.Headers["Nonce"]); err != nil || len(out.nonce) != chacha20poly1305.NonceSizeX {
		return bad("the nonce is malformed")
	}
	if len(block.Bytes) != ed25519.SeedSize+chacha20poly1305.Overhead {
		return bad("the body has %d bytes", len(block.Bytes))
	}
	return out, nil
}

// SealedOwner is the owner that an exported file says it is of; only Unseal
// proves it. Error: invalid_request.
func SealedOwner(b []byte) (owner.ID, error) {
	s, err := parseSealed(b)
	if err != nil {
		return "", err
	}
	return s.owner, nil
}

// Unseal reads what Seal made; b is hostile. Errors: invalid_request for
// something else, forbidden for a wrong passphrase.
func Unseal(b, passphrase []byte) (ed25519.PrivateKey, error) {
	s, err := parseSealed(b)
	if err != nil {
		return nil, err
	}
	if len(passphrase) > maxPassphrase {
		return nil, protocol.Errorf(protocol.CodeForbidden, "the passphrase is too long")
	}
	box, err := newBox(passphrase, s.salt, s.costs)
	if err != nil {
		return nil, err
	}
	seed, err := box.Open(nil, s.nonce, s.block.Bytes, sealedHeaders(s.block))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeForbidden, "the passphrase does not open the file, or the file was changed")
	}
	key := ed25519.NewKeyFromSeed(seed)
	if owner.IDOf(key.Public().(ed25519.PublicKey)) != s.owner {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the file says that it is of another owner than its key's")
	}
	return key, nil
}
