package swarm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"neuron/engine/protocol"
)

// MaxLine bounds one message in bytes: a status of a hundred models with a
// thousand layers each fits.
const MaxLine = 8 << 20

// Limits of what one message may hold.
const (
	maxModels   = 256
	maxRanges   = 1024
	maxAdopted  = 1024
	maxAnnounce = 32
	maxPeers    = 1024
	maxFiles    = 1 << 16
	maxText     = 4096
)

// Lines reads messages, one a line, of at most MaxLine bytes.
type Lines struct{ s *bufio.Scanner }

// NewLines reads from r.
func NewLines(r io.Reader) *Lines {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), MaxLine)
	return &Lines{s}
}

// Next is the next line; it is valid until the following call. The error is
// io.EOF at the end, or why reading broke.
func (l *Lines) Next() ([]byte, error) {
	if l.s.Scan() {
		return l.s.Bytes(), nil
	}
	if err := l.s.Err(); err != nil {
		return nil, err
	}
	return nil, io.EOF
}

// ParseWanted reads a message to the child and checks all that can be checked
// without the disk.
func ParseWanted(line []byte) (Wanted, error) {
	var w Wanted
	if err := unmarshal(line, &w); err != nil {
		return Wanted{}, err
	}
	return w, w.Check()
}

// Check reports what is wrong with w: lengths, addresses, paths, duplicates.
func (w *Wanted) Check() error {
	if w.Version < 0 {
		return invalid("version %d", w.Version)
	}
	if err := checkAddr(w.Listen, true); err != nil {
		return err
	}
	l := w.Limits
	if l.UpBytes < 0 || l.DownBytes < 0 || l.Peers < 0 || l.DiskBytes < 0 || l.KeepFree < 0 {
		return invalid("a negative limit")
	}
	if len(w.Models) > maxModels {
		return invalid("%d models", len(w.Models))
	}
	seen := map[protocol.ModelID]bool{}
	dirs := map[string]bool{}
	for i := range w.Models {
		m := &w.Models[i]
		if err := m.check(); err != nil {
			return err
		}
		if seen[m.Model] || dirs[m.Dir] {
			return invalid("model %s appears twice", m.Model.Short())
		}
		seen[m.Model], dirs[m.Dir] = true, true
	}
	return nil
}

func (m *Model) check() error {
	if _, err := protocol.ParseModelID(string(m.Model)); err != nil {
		return err
	}
	if err := checkPath(m.Dir); err != nil {
		return err
	}
	switch {
	case len(m.Ranges) > maxRanges:
		return invalid("%d ranges", len(m.Ranges))
	case len(m.Adopted) > maxAdopted:
		return invalid("%d adopted files", len(m.Adopted))
	case len(m.Announce) > maxAnnounce:
		return invalid("%d tracker URLs", len(m.Announce))
	case len(m.Peers) > maxPeers:
		return invalid("%d peers", len(m.Peers))
	case len(m.Damaged) > maxFiles:
		return invalid("%d damaged files", len(m.Damaged))
	}
	for _, r := range m.Ranges {
		if !r.Valid(r.Last) {
			return protocol.Errorf(protocol.CodeRangeInvalid, "layers %s", r)
		}
	}
	for _, a := range m.Adopted {
		if err := checkPath(a); err != nil {
			return err
		}
	}
	for _, a := range m.Announce {
		if err := checkURL(a); err != nil {
			return err
		}
	}
	for _, p := range m.Peers {
		if err := checkAddr(p, false); err != nil {
			return err
		}
	}
	for _, d := range m.Damaged {
		if d.File == "" || d.File == "." || d.File == ".." || len(d.File) > maxText || strings.ContainsAny(d.File, "/\\\x00") || d.Number < 0 {
			return invalid("damaged file %.80q", d.File)
		}
	}
	return nil
}

// ParseStatus reads a message of the child.
func ParseStatus(line []byte) (Status, error) {
	var s Status
	if err := unmarshal(line, &s); err != nil {
		return Status{}, err
	}
	if s.Version < 0 {
		return Status{}, invalid("version %d", s.Version)
	}
	if s.Addr != "" {
		if err := checkAddr(s.Addr, false); err != nil {
			return Status{}, err
		}
	}
	if len(s.Models) > maxModels {
		return Status{}, invalid("%d models", len(s.Models))
	}
	for i := range s.Models {
		if err := s.Models[i].check(); err != nil {
			return Status{}, err
		}
	}
	return s, nil
}

func (m *ModelStatus) check() error {
	if _, err := protocol.ParseModelID(string(m.Model)); err != nil {
		return err
	}
	switch m.State {
	case StateStarting, StateDownloading, StateComplete, StatePaused, StateBlocked, StateFailed:
	default:
		return invalid("state %.40q", string(m.State))
	}
	if len(m.Files) > maxFiles {
		return invalid("%d files", len(m.Files))
	}
	if m.Bytes < 0 || m.Done < 0 || m.Done > m.Bytes || m.Missing < 0 || m.Received < 0 || m.Sent < 0 || m.Wasted < 0 ||
		m.DownRate < 0 || m.UpRate < 0 || m.Peers < 0 || m.Seeds < 0 || m.Dropped < 0 || m.ETASeconds < -1 || m.RepairNumber < 0 {
		return invalid("figures of model %s", m.Model.Short())
	}
	for _, f := range m.Files {
		if f.Name == "" || len(f.Name) > maxText || f.Layer < -1 || f.Bytes < 0 || f.Done < 0 || f.Done > f.Bytes {
			return invalid("figures of file %.80q", f.Name)
		}
	}
	return nil
}

// unmarshal reads exactly one JSON object.
func unmarshal(line []byte, v any) error {
	if len(line) > MaxLine {
		return invalid("%d bytes", len(line))
	}
	if !bytes.HasPrefix(bytes.TrimLeft(line, " \t\r\n"), []byte("{")) {
		return invalid("not an object")
	}
	if err := json.Unmarshal(line, v); err != nil {
		return invalid("%w", err)
	}
	return nil
}

func checkAddr(s string, zeroPort bool) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || len(s) > maxText {
		return invalid("address %.80q", s)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 && !zeroPort {
		return invalid("port of address %.80q", s)
	}
	// Peers are dialled by number: a name could point anywhere later.
	if host == "" && zeroPort {
		return nil
	}
	// An address with a zone has no form that the library can ban by.
	if net.ParseIP(host) == nil {
		return invalid("address %.80q is not an IP address", s)
	}
	return nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || len(s) > maxText || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return invalid("tracker %.80q is not an http or https URL", s)
	}
	// Both make the library panic.
	if u.User != nil || u.String() != s {
		return invalid("tracker %.80q has a user or is not in its plain form", s)
	}
	return nil
}

func checkPath(s string) error {
	if len(s) > 2*maxText || !filepath.IsAbs(s) || strings.Contains(s, "\x00") {
		return invalid("path %.80q is not absolute", s)
	}
	return nil
}

func invalid(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "swarm message: "+format, args...)
}
