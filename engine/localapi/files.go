package localapi

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"

	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
)

// Names in the data folder.
const (
	// AddressFile says where the running engine listens; it is removed when
	// the engine stops in order, and may be stale after a crash.
	AddressFile = "api.json"
	// TokenFile holds the token alone, for scripts.
	TokenFile = "api.token"
)

// tokenBytes is the size of a token before it is written as hex.
const tokenBytes = 32

// maxAddressFile bounds both files.
const maxAddressFile = 16 << 10

// newToken makes a token for this run and writes it to the token file. It is
// never kept over a restart: a client that meets a stale address file shows its
// token to whoever has the port by then, and that must be of no use later.
func newToken(dir string) (string, error) {
	raw := make([]byte, tokenBytes)
	rand.Read(raw) // never fails (crypto/rand)
	tok := hex.EncodeToString(raw)
	if err := atomicfile.Write(filepath.Join(dir, TokenFile), []byte(tok)); err != nil {
		return "", protocol.Errorf(protocol.CodeDataFolder, "save the local API's token: %w", err)
	}
	return tok, nil
}

// write makes the address file.
func (a Address) write(dir string) error {
	b, err := json.MarshalIndent(a, "", "  ")
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, AddressFile), b)
	}
	if err != nil {
		return protocol.Errorf(protocol.CodeDataFolder, "write the local API's address: %w", err)
	}
	return nil
}

// written reports whether both files say a. What cannot be read for another
// reason than that it is gone counts as written: it may be a moment's trouble.
func (a Address) written(dir string) bool {
	b, err := readSmall(filepath.Join(dir, AddressFile))
	if err == nil {
		there, err := ParseAddress(b)
		if err != nil || *there != a {
			return false
		}
	} else if errors.Is(err, fs.ErrNotExist) {
		return false
	}
	b, err = readSmall(filepath.Join(dir, TokenFile))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	return string(b) == a.Token
}

// readSmall reads a file that must be small.
func readSmall(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxAddressFile+1))
	if err == nil && len(b) > maxAddressFile {
		err = errors.New("file too large")
	}
	return b, err
}

// ParseAddress checks the bytes of an address file: a client must not send the
// token anywhere but to loopback, whoever wrote the file.
func ParseAddress(b []byte) (*Address, error) {
	bad := func(what string) (*Address, error) {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "the file %s is damaged: %s", AddressFile, what)
	}
	if len(b) > maxAddressFile {
		return bad("too large")
	}
	var a Address
	if err := json.Unmarshal(b, &a); err != nil {
		return bad("not JSON")
	}
	u, err := url.Parse(a.URL)
	if err != nil || u.Scheme != "http" || u.User != nil || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || !loopbackHost(u.Host) {
		return bad("the address is not on this computer")
	}
	if raw, err := hex.DecodeString(a.Token); err != nil || len(raw) != tokenBytes {
		return bad("no token")
	}
	return &a, nil
}

// loopbackHost accepts the Host values that mean this computer: a literal
// loopback address or localhost, with or without a port.
func loopbackHost(host string) bool {
	h := host
	if name, _, err := net.SplitHostPort(host); err == nil {
		h = name
	} else if len(h) > 1 && h[0] == '[' && h[len(h)-1] == ']' {
		h = h[1 : len(h)-1]
	}
	if h == "localhost" {
		return true
	}
	ip := net.ParseIP(h)
	return ip != nil && ip.IsLoopback()
}
