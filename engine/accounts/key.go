package accounts

import (
	"strings"

	"neuron/engine/protocol"
)

// An API key of the network is "nk-", 8 characters that name it, "-", and 52
// that are the secret, all of base32 in lower case.
const (
	keyIDLen = 3 + 8
	keyLen   = keyIDLen + 1 + 52
	base32   = "abcdefghijklmnopqrstuvwxyz234567"
)

// CheckKey checks the form of an API key of the network. Its error repeats
// nothing of it. Error: invalid_request.
func CheckKey(s string) error {
	rest, ok := strings.CutPrefix(s, "nk-")
	if !ok || len(s) != keyLen || rest[8] != '-' || strings.Trim(rest[:8]+rest[9:], base32) != "" {
		return protocol.Errorf(protocol.CodeInvalidRequest,
			"this is not an API key of the network: nk-, 8 characters, a dash and 52 characters; make one with: neuron-engine keys create NAME")
	}
	return nil
}
