package localapi

import (
	"context"
	"net/http"
	"time"

	"neuron/engine/protocol"
)

// Updates is what the API does about newer versions of Neuron. engine/update
// implements it; Client is the same from outside. Nothing is fetched or
// installed but by these orders, and nothing is installed that is not in a
// list of releases which the publisher has signed.
type Updates interface {
	// Update says what is known, without asking anybody.
	Update() Update
	// CheckUpdate reads the list of releases now. Errors: unsupported (this build
	// has no release key or no address), update_invalid, unavailable, timeout.
	CheckUpdate(ctx context.Context) (*Update, error)
	// DownloadUpdate begins to fetch the release; how far it is, Update tells.
	// Errors: not_found (there is none for this computer), disk_full.
	DownloadUpdate(ctx context.Context) (*Update, error)
	// DismissUpdate hides a version until a newer one is there; "" hides none.
	DismissUpdate(ctx context.Context, version string) (*Update, error)
	// InstallUpdate checks the fetched package once more and hands it to the
	// system's installer, or runs it where it is Neuron's own. Errors: not_found,
	// update_invalid, unsupported (the system opens no such package).
	InstallUpdate(ctx context.Context) (*Installing, error)
}

// UpdateState says how far the next version is.
type UpdateState string

// The states.
const (
	UpdateUnsupported UpdateState = "unsupported" // this build cannot check: Reason
	UpdateOff         UpdateState = "off"         // nothing is known, and the user wants no checks
	UpdateUnknown     UpdateState = "unknown"     // nothing has been read yet
	UpdateCurrent     UpdateState = "current"     // there is nothing newer
	UpdateAvailable   UpdateState = "available"   // Release is newer
	UpdateDownloading UpdateState = "downloading" // Release is being fetched
	UpdateReady       UpdateState = "ready"       // Release is fetched and checked
)

// Update is what is known of newer versions.
type Update struct {
	State UpdateState `json:"state"`
	// Reason says in English why the state is unsupported.
	Reason  string `json:"reason,omitempty"`
	Version string `json:"version"` // that runs
	// Kind is how Neuron came onto this computer: deb, rpm, run, tar, setup, dmg.
	Kind string `json:"kind"`
	// Feed is the address of the list, Channel which one is followed; Auto says
	// that it is read by itself.
	Feed    string `json:"feed,omitempty"`
	Channel string `json:"channel,omitempty"`
	Auto    bool   `json:"auto"`
	// Checked is when the list was read and found good last, Next when it is read
	// by itself.
	Checked time.Time `json:"checked,omitzero"`
	Next    time.Time `json:"next,omitzero"`
	// Release is the newest version, nil unless it is newer than the one that runs.
	Release *Release `json:"release,omitempty"`
	// Done are the bytes of Release that are there.
	Done int64 `json:"done,omitempty"`
	// Error is why the last check, download or installation came to nothing, nil
	// when it did not. Of Neuron's own installer Detail names its "log", and has
	// the last line of it ("said").
	Error *protocol.Error `json:"error,omitempty"`
}

// Release is a version that can be had.
type Release struct {
	Version string `json:"version"`
	Date    string `json:"date"` // 2006-01-02
	// Page is an https address for people, "" without one.
	Page string `json:"page,omitempty"`
	// Notes say what is new, as plain text by language.
	Notes map[string]string `json:"notes"`
	// Name, Bytes and File are of the package for this computer: Name is "" when
	// the release has none, File is where it lies once it is fetched.
	Name  string `json:"name,omitempty"`
	Bytes int64  `json:"bytes,omitempty"`
	File  string `json:"file,omitempty"`
	// Dismissed says that the user does not want to be told of it.
	Dismissed bool `json:"dismissed,omitempty"`
}

// Installing says what an order to install has begun.
type Installing struct {
	Version string `json:"version"`
	File    string `json:"file"`
	// Silent says that Neuron's own installer runs, ends the programs and starts
	// them again; else the system's has been opened and asks.
	Silent bool `json:"silent"`
	// Command is what does the same in a terminal, "" where nothing does.
	Command string `json:"command,omitempty"`
}

type versionOrder struct {
	Version string `json:"version"`
}

// Paths of this part of the API.
const (
	pathUpdate         = "/local/v1/update"
	pathUpdateCheck    = "/local/v1/update/check"
	pathUpdateDownload = "/local/v1/update/download"
	pathUpdateDismiss  = "/local/v1/update/dismiss"
	pathUpdateInstall  = "/local/v1/update/install"
)

func (s *Server) updateRoutes(mux *http.ServeMux) {
	u := s.o.Updates
	if u == nil {
		for _, path := range []string{pathUpdate, pathUpdateCheck, pathUpdateDownload, pathUpdateDismiss, pathUpdateInstall} {
			mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
				refuse(w, protocol.Errorf(protocol.CodeUnsupported, "this engine does not look for newer versions: \"neuron-engine desktop\" does"))
			})
		}
		return
	}
	mux.HandleFunc("GET "+pathUpdate, give(func(context.Context) (Update, error) { return u.Update(), nil }))
	mux.HandleFunc("POST "+pathUpdateCheck, question(func(ctx context.Context, _ done) (*Update, error) { return u.CheckUpdate(ctx) }))
	mux.HandleFunc("POST "+pathUpdateDownload, question(func(ctx context.Context, _ done) (*Update, error) { return u.DownloadUpdate(ctx) }))
	mux.HandleFunc("POST "+pathUpdateDismiss, question(func(ctx context.Context, v versionOrder) (*Update, error) { return u.DismissUpdate(ctx, v.Version) }))
	mux.HandleFunc("POST "+pathUpdateInstall, question(func(ctx context.Context, _ done) (*Installing, error) { return u.InstallUpdate(ctx) }))
}

// Update says what is known of newer versions; see Updates.
func (c *Client) Update(ctx context.Context) (*Update, error) { return got[Update](ctx, c, pathUpdate) }

// CheckUpdate reads the list of releases now.
func (c *Client) CheckUpdate(ctx context.Context) (*Update, error) {
	return call[Update](ctx, c, http.MethodPost, pathUpdateCheck, done{})
}

// DownloadUpdate begins to fetch the newest release.
func (c *Client) DownloadUpdate(ctx context.Context) (*Update, error) {
	return call[Update](ctx, c, http.MethodPost, pathUpdateDownload, done{})
}

// DismissUpdate hides a version; "" hides none.
func (c *Client) DismissUpdate(ctx context.Context, version string) (*Update, error) {
	return call[Update](ctx, c, http.MethodPost, pathUpdateDismiss, versionOrder{version})
}

// InstallUpdate begins to install what was fetched.
func (c *Client) InstallUpdate(ctx context.Context) (*Installing, error) {
	return call[Installing](ctx, c, http.MethodPost, pathUpdateInstall, done{})
}
