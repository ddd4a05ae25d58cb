package operator

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
)

// localFile is the file of the data folder that tells the operator's commands
// where the running tracker listens on this computer.
const localFile = "tracker.local"

// Local is what stands in it.
type Local struct {
	URL string `json:"url"`
	// CertSHA256 is the hash of the certificate, hex, or "" without TLS.
	CertSHA256 string `json:"cert_sha256,omitempty"`
}

// WriteLocal keeps where a tracker listens, IP:PORT, and with which certificate;
// tls is nil without. An unspecified address is reached by loopback. Errors:
// data_folder, disk_full.
func WriteLocal(d *datadir.Dir, addr string, tls *tls.Config) error {
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "listen address %s: %w", addr, err)
	}
	if at.Addr().IsUnspecified() {
		// Go's "::" takes IPv4 as well.
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	}
	l := Local{URL: "http://" + at.String() + "/"}
	if tls != nil {
		sum := sha256.Sum256(tls.Certificates[0].Certificate[0])
		l = Local{URL: "https://" + at.String() + "/", CertSHA256: hex.EncodeToString(sum[:])}
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "encode %s: %w", localFile, err)
	}
	return d.WriteFile(localFile, raw)
}

// ReadLocal is what the newest tracker of a folder wrote. Error: data_folder,
// also where none has run.
func ReadLocal(d *datadir.Dir) (l Local, err error) {
	path := d.File(localFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return l, protocol.Errorf(protocol.CodeDataFolder, "no tracker has run on the folder %s", d.Path())
	}
	if err != nil {
		return l, datadir.Coded(err, "read "+path)
	}
	if err := json.Unmarshal(raw, &l); err != nil || l.URL == "" {
		return l, protocol.Errorf(protocol.CodeDataFolder, "the file %s is damaged; start the tracker again", path)
	}
	return l, nil
}
