package announce

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"neuron/engine/protocol"
)

// Limits of a query.
const (
	maxQuery  = 8 << 10
	maxParams = 128
	// MaxScrape is how many torrents one scrape may name.
	MaxScrape = 64
)

// Event says why a client announces.
type Event string

// The events of BEP 3; none for an announce at its regular time.
const (
	EventNone      Event = ""
	EventStarted   Event = "started"
	EventStopped   Event = "stopped"
	EventCompleted Event = "completed"
)

// Request is a parsed announce.
type Request struct {
	InfoHash             Hash
	PeerID               PeerID
	Port                 uint16
	Uploaded, Downloaded int64 // bytes
	Left                 int64 // bytes, 0 for a seed
	Event                Event
	NumWant              int  // -1: not said
	Compact              bool // BEP 23; true unless refused
	NoPeerID             bool
	IP                   netip.Addr // that the client claims, or invalid
	Token                string     // opens private torrents
}

// ParseAnnounce reads the query of an announce; raw is hostile. Parameters
// that this tracker does not know are ignored. Error: invalid_request.
func ParseAnnounce(raw string) (*Request, error) {
	r := &Request{NumWant: -1, Compact: true}
	seen := make(map[string]bool)
	err := parameters(raw, func(key, value string) error {
		var err error
		known := true
		switch key {
		case "info_hash":
			err = bytes20(r.InfoHash[:], key, value)
		case "peer_id":
			err = bytes20(r.PeerID[:], key, value)
		case "port":
			n, perr := strconv.ParseUint(value, 10, 16)
			if perr != nil || n == 0 {
				err = bad(key, "%.20q is not a port", value)
			}
			r.Port = uint16(n)
		case "uploaded":
			r.Uploaded, err = amount(key, value)
		case "downloaded":
			r.Downloaded, err = amount(key, value)
		case "left":
			r.Left, err = amount(key, value)
		case "event":
			r.Event, err = event(value)
		case "numwant":
			n, perr := strconv.ParseInt(value, 10, 32)
			if perr != nil {
				err = bad(key, "%.20q is not a number", value)
			}
			r.NumWant = max(int(n), -1)
		case "compact":
			r.Compact = value != "0"
		case "no_peer_id":
			r.NoPeerID = value != "0"
		case "ip":
			if r.IP, err = netip.ParseAddr(value); err != nil || r.IP.Zone() != "" {
				err = bad(key, "%.60q is not an IP address", value)
			}
			r.IP = r.IP.Unmap()
		case "token":
			r.Token = value
		default:
			known = false
		}
		if known && err == nil {
			if seen[key] {
				err = bad(key, "%s stands twice", key)
			}
			seen[key] = true
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, key := range []string{"info_hash", "peer_id", "port"} {
		if !seen[key] {
			return nil, bad(key, "%s is missing", key)
		}
	}
	// A client that does not say how much is left is not taken for a seed.
	if !seen["left"] {
		r.Left = 1
	}
	return r, nil
}

// ParseScrape reads the query of a scrape; raw is hostile. Error:
// invalid_request.
func ParseScrape(raw string) (hashes []Hash, token string, err error) {
	err = parameters(raw, func(key, value string) error {
		switch key {
		case "info_hash":
			if len(hashes) == MaxScrape {
				return bad(key, "more than %d torrents", MaxScrape)
			}
			var h Hash
			if err := bytes20(h[:], key, value); err != nil {
				return err
			}
			hashes = append(hashes, h)
		case "token":
			token = value
		}
		return nil
	})
	if err == nil && len(hashes) == 0 {
		err = bad("info_hash", "name the torrents that you want to know of")
	}
	return hashes, token, err
}

// parameters calls f for each parameter of a query. Unlike net/url's it stops
// at the first fault.
func parameters(raw string, f func(key, value string) error) error {
	if len(raw) > maxQuery {
		return bad("", "a query of %d bytes", len(raw))
	}
	n := 0
	for part := range strings.SplitSeq(raw, "&") {
		if part == "" {
			continue
		}
		if n++; n > maxParams {
			return bad("", "more than %d parameters", maxParams)
		}
		k, v, _ := strings.Cut(part, "=")
		key, err := url.QueryUnescape(k)
		if err != nil {
			return bad("", "the query is not well formed")
		}
		value, err := url.QueryUnescape(v)
		if err != nil {
			return bad("", "the query is not well formed")
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return nil
}

func bytes20(to []byte, key, value string) error {
	if len(value) != len(to) {
		return bad(key, "%s has %d bytes, not 20", key, len(value))
	}
	copy(to, value)
	return nil
}

// amount reads a number of bytes. Some clients send -1 for "unknown".
func amount(key, value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || n < -1 {
		return 0, bad(key, "%.30q is not a number of bytes", value)
	}
	if n == -1 {
		n = 1
	}
	return n, nil
}

func event(value string) (Event, error) {
	switch e := Event(value); e {
	case EventNone, EventStarted, EventStopped, EventCompleted:
		return e, nil
	case "empty", "paused": // BEP 21: paused is a partial seed
		return EventNone, nil
	default:
		return "", bad("event", "unknown event %.20q", value)
	}
}

func bad(param, format string, args ...any) error {
	e := protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
	e.Param = param
	return e
}
