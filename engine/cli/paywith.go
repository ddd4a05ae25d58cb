package cli

import (
	"os"

	"neuron/engine/accounts"
	"neuron/engine/protocol"
)

// payEnv holds the key that pays when --pay-with is not given.
const payEnv = "NEURON_API_KEY"

// payKey is the key of the network that pays for a gateway's sessions, "" for
// none. No error shows it.
func payKey(file string) (string, error) {
	key := os.Getenv(payEnv)
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return "", protocol.Errorf(protocol.CodeInvalidRequest, "read the key that pays: %w", err)
		}
		defer f.Close()
		line, err := firstLine(f)
		if err != nil {
			return "", err
		}
		key = string(line)
		if key == "" {
			return "", protocol.Errorf(protocol.CodeInvalidRequest, "the file %s has no key in its first line", file)
		}
	}
	if key == "" {
		return "", nil
	}
	return key, accounts.CheckKey(key)
}
