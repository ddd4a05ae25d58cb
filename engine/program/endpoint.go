package program

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"neuron/engine/protocol"
)

const keyFile = "api.key"

// endpointFile tells the command line where the API is.
const endpointFile = "gateway.json"

// Endpoint is how to reach a gateway's API.
type Endpoint struct {
	URL     string   `json:"url"` // ends in /v1
	Key     string   `json:"key,omitempty"`
	PID     int      `json:"pid"`
	Models  []string `json:"models"`
	Version string   `json:"version"`
}

func (g *Gateway) writeEndpoint() error {
	raw, err := json.MarshalIndent(g.Endpoint(), "", " ")
	if err != nil {
		return fmt.Errorf("encode endpoint: %w", err)
	}
	// 0600: it holds the key.
	if err := os.WriteFile(filepath.Join(g.o.Data, endpointFile), raw, 0o600); err != nil {
		return dataError(g.o.Data, err)
	}
	return nil
}

// ReadEndpoint finds the gateway that runs with a data folder.
func ReadEndpoint(data string) (Endpoint, error) {
	var e Endpoint
	raw, err := os.ReadFile(filepath.Join(data, endpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return e, protocol.Errorf(protocol.CodeUnavailable, "no gateway is running with the data folder %s", data)
	}
	if err == nil {
		err = json.Unmarshal(raw, &e)
	}
	if err != nil {
		return e, protocol.Errorf(protocol.CodeDataFolder, "gateway address: %w", err)
	}
	return e, nil
}

// apiKey reads or makes the key of the API.
func apiKey(o GatewayOptions) (string, error) {
	switch o.Key {
	case NoKey:
		host, _, err := net.SplitHostPort(o.Listen)
		if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			return "", protocol.Errorf(protocol.CodeInvalidRequest, "an API without a key may listen on loopback only, not on %s", o.Listen)
		}
		return "", nil
	case "":
	default:
		return o.Key, nil
	}
	path := filepath.Join(o.Data, keyFile)
	raw, err := os.ReadFile(path)
	if key := strings.TrimSpace(string(raw)); err == nil && key != "" {
		return key, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", dataError(o.Data, err)
	}
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	key := "nk-" + hex.EncodeToString(b[:])
	if err := os.WriteFile(path, []byte(key+"\n"), 0o600); err != nil {
		return "", dataError(o.Data, err)
	}
	return key, nil
}

// allowedHosts are the names under which a loopback API may be called; nil for
// others, where the key alone guards.
func allowedHosts(a net.Addr) []string {
	host, _, err := net.SplitHostPort(a.String())
	if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
		return nil
	}
	return []string{"localhost", "127.0.0.1", "::1"}
}
