package wizard

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"

	"neuron/engine/protocol"
)

// maxAnswer bounds what is read of a tracker's answer, in bytes.
const maxAnswer = 8 << 20

// Address brings what a person types into the form of the settings: a missing
// scheme is https, on this computer itself http. Error: invalid_request.
func Address(text string) (string, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", nil
	}
	if !strings.Contains(text, "://") {
		host, _, _ := strings.Cut(text, ":")
		if host == "localhost" || strings.HasPrefix(host, "127.") {
			text = "http://" + text
		} else {
			text = "https://" + text
		}
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.User != nil {
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "this is no address of a network")
	}
	switch u.Scheme {
	case "http", "https", "ws", "wss":
		return strings.TrimRight(text, "/"), nil
	}
	return "", protocol.Errorf(protocol.CodeInvalidRequest, "an address begins with https://")
}

// Ask looks whether a tracker answers at an address, and counts the models of
// its network. Errors: invalid_request, unavailable.
func Ask(ctx context.Context, address string) (models int, err error) {
	address, err = Address(address)
	if err != nil || address == "" {
		return 0, protocol.Errorf(protocol.CodeInvalidRequest, "this is no address of a network")
	}
	if rest, ok := strings.CutPrefix(address, "ws"); ok {
		address = "http" + rest // wss becomes https
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/v1/catalog", nil)
	if err != nil {
		return 0, protocol.Errorf(protocol.CodeInvalidRequest, "this is no address of a network: %w", err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, protocol.Errorf(protocol.CodeUnavailable, "nothing answers at this address: %w", err)
	}
	defer resp.Body.Close()
	var catalog protocol.Catalog
	if resp.StatusCode != http.StatusOK || json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(&catalog) != nil {
		return 0, protocol.Errorf(protocol.CodeUnavailable, "something answers at this address, but it is no network of Neuron")
	}
	return len(catalog.Models), nil
}
