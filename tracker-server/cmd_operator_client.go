package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/user"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/logging"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/operator"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// operatorClient talks to the tracker that runs on a data folder.
type operatorClient struct {
	http *http.Client
	url  string // without the last slash
	key  logging.Secret
}

// dialOperator finds the running tracker of a folder and its key. Errors:
// data_folder, unavailable when it does not run.
func dialOperator(data string) (*operatorClient, error) {
	dir, err := datadir.Share(data, false)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	at, err := operator.ReadLocal(dir)
	if err != nil {
		return nil, err
	}
	key, err := operator.ReadKey(dir)
	if err != nil {
		return nil, err
	}
	transport := &http.Transport{DisableKeepAlives: true} // and no proxy: it is this computer
	if at.CertSHA256 != "" {
		transport.TLSClientConfig = pinned(at.CertSHA256)
	}
	return &operatorClient{
		http: &http.Client{Transport: transport, Timeout: time.Minute, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		url:  strings.TrimSuffix(at.URL, "/"), key: key,
	}, nil
}

// pinned trusts the one certificate that the tracker has told in its own folder:
// its names are those of the public address, not of this computer.
func pinned(sum string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			have := sha256.Sum256(s.PeerCertificates[0].Raw)
			if hex.EncodeToString(have[:]) != sum {
				return protocol.Errorf(protocol.CodeForbidden, "another program answers with another certificate than the tracker's")
			}
			return nil
		},
	}
}

// do sends a request and returns the answer's body. Errors are the tracker's
// own; unavailable when it does not answer.
func (c *operatorClient) do(ctx context.Context, method, path string, in any) ([]byte, error) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("encode the request: %w", err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+"/v1/operator"+path, body)
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.key.Reveal())
	if u, err := user.Current(); err == nil {
		req.Header.Set("Neuron-Operator", strings.ToValidUTF8(u.Username, ""))
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the tracker does not answer at %s; does it run? %w", c.url, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the tracker's answer ended early: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		return raw, nil
	}
	var e protocol.Error
	if json.Unmarshal(raw, &e) != nil || e.Code == "" {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "%s answered with status %d, and not as a tracker does", c.url, resp.StatusCode)
	}
	return nil, &e
}
