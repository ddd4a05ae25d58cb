// Package opening reads what the operating system hands to Neuron to open: a
// model's file, or an invitation, which is an address that begins with neuron:.
//
// The window imports it. It opens nothing, and says only what is asked for: an
// address may come from any web page, so nothing is done before the user agrees.
package opening

import (
	"net"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"

	"neuron/engine/protocol"
)

// Target is what is to be opened; one of its fields is set.
type Target struct {
	Model   string // the absolute path of a GGUF file
	Tracker string // the address of the network that an invitation is for
}

const (
	scheme = "neuron"
	// maxArgument and maxTracker bound what is read, in bytes.
	maxArgument = 4096
	maxTracker  = 256
)

// Parse reads an argument of the command line: a path, a file: address, or an
// invitation,
//
//	neuron://join?tracker=https%3A%2F%2Ftracker.example
//
// whose tracker must be reached by TLS, or lie on this computer. A relative path
// is one of the folder dir. Errors: invalid_request.
func Parse(argument, dir string) (Target, error) {
	if len(argument) > maxArgument || strings.ContainsFunc(argument, func(r rune) bool { return r < ' ' }) {
		return Target{}, protocol.Errorf(protocol.CodeInvalidRequest, "this is nothing that Neuron opens")
	}
	switch before, _, _ := strings.Cut(argument, ":"); strings.ToLower(before) {
	case scheme:
		return invitation(argument)
	case "file":
		return fileURL(argument)
	}
	if argument == "" {
		return Target{}, protocol.Errorf(protocol.CodeInvalidRequest, "there is nothing to open")
	}
	if !filepath.IsAbs(argument) {
		argument = filepath.Join(dir, argument)
	}
	return model(filepath.Clean(argument))
}

func model(path string) (Target, error) {
	if !strings.EqualFold(filepath.Ext(path), ".gguf") || !filepath.IsAbs(path) {
		return Target{}, protocol.Errorf(protocol.CodeInvalidRequest, "%q is no model; Neuron opens files that end in .gguf", filepath.Base(path))
	}
	return Target{Model: path}, nil
}

func fileURL(address string) (Target, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host != "" && u.Host != "localhost" || u.Opaque != "" || strings.ContainsFunc(u.Path, func(r rune) bool { return r < ' ' }) {
		return Target{}, protocol.Errorf(protocol.CodeInvalidRequest, "this is no file of this computer")
	}
	path := u.Path
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/") // file:///C:/models/a.gguf
	}
	return model(filepath.Clean(filepath.FromSlash(path)))
}

func invitation(address string) (Target, error) {
	no := func(why string) (Target, error) {
		return Target{}, protocol.Errorf(protocol.CodeInvalidRequest, "this invitation cannot be used: %s", why)
	}
	u, err := url.Parse(address)
	if err != nil {
		return no("it is damaged")
	}
	if !strings.EqualFold(u.Host, "join") || strings.Trim(u.Path, "/") != "" || u.User != nil {
		return no("this version of Neuron does not know what it asks for")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(q["tracker"]) != 1 {
		return no("it names no network")
	}
	t, err := url.Parse(q.Get("tracker"))
	if err != nil || t.Hostname() == "" || t.User != nil || t.RawQuery != "" || t.Fragment != "" || len(q.Get("tracker")) > maxTracker {
		return no("it names no network")
	}
	switch {
	case t.Scheme == "https":
	case t.Scheme == "http" && local(t.Hostname()):
	default:
		return no("its network is not reached by https://")
	}
	return Target{Tracker: strings.TrimRight(t.String(), "/")}, nil
}

func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
