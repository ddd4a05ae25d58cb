package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// FileKind names one of the two files of a published model.
type FileKind string

// The files.
const (
	FileManifest FileKind = "manifest"
	FileTorrent  FileKind = "torrent"
)

// File is a file of the catalog. Read gets its bytes, which have the SHA-256
// (64 hex digits); it is called only where they are needed.
type File struct {
	SHA256    string
	Private   bool
	Published time.Time
	Read      func() ([]byte, error)
}

func (p *pages) catalog(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, protocol.Catalog{Models: p.src.Catalog()})
}

// file serves GET and HEAD of a manifest or torrent. Its URL may carry the
// hash that the catalog tells (?sha256=): such an answer never changes and may
// be kept for ever. Without it a cache has to ask again.
func (p *pages) file(kind FileKind, contentType string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id, err := protocol.ParseModelID(r.PathValue("id"))
		if err != nil {
			writeError(w, err)
			return
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		f, err := p.src.File(r.Context(), id, kind, token)
		if err != nil {
			writeError(w, err)
			return
		}
		want := r.URL.Query().Get("sha256")
		if want != "" && want != f.SHA256 {
			writeError(w, protocol.Errorf(protocol.CodeNotFound, "the model has another %s now; ask for the catalog again", string(kind)))
			return
		}
		h := w.Header()
		tag := `"` + f.SHA256 + `"`
		h.Set("ETag", tag)
		h.Set("Last-Modified", f.Published.UTC().Format(http.TimeFormat))
		h.Set("Cache-Control", cacheControl(f.Private, want != ""))
		if f.Private {
			h.Set("Vary", "Authorization")
		}
		if matches(r.Header.Get("If-None-Match"), tag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		raw, err := f.Read()
		if err != nil {
			h.Del("ETag")
			h.Set("Cache-Control", "no-store")
			writeError(w, err)
			return
		}
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(raw)))
		if kind == FileTorrent {
			h.Set("Content-Disposition", `attachment; filename="`+id.Short()+`.torrent"`)
		}
		// Half an hour for 32 MiB at 18 kB/s; the default is for small pages.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Minute))
		if r.Method != http.MethodHead {
			_, _ = w.Write(raw) // the reader may be gone
		}
	}
}

func cacheControl(private, immutable bool) string {
	who := "public"
	if private {
		who = "private"
	}
	if immutable {
		return who + ", max-age=31536000, immutable"
	}
	return who + ", no-cache"
}

// matches compares an If-None-Match header with a tag.
func matches(header, tag string) bool {
	for part := range strings.SplitSeq(header, ",") {
		if part = strings.TrimPrefix(strings.TrimSpace(part), "W/"); part == tag || part == "*" {
			return true
		}
	}
	return false
}

// MissingLayers says in words which layers have no replica: "4-6, 9-10" (ends
// not included), or "".
func MissingLayers(replicas []int) string {
	var out []string
	for l := 0; l < len(replicas); l++ {
		if replicas[l] > 0 {
			continue
		}
		first := l
		for l+1 < len(replicas) && replicas[l+1] == 0 {
			l++
		}
		out = append(out, protocol.Range{First: first, Last: l + 1}.String())
	}
	return strings.Join(out, ", ")
}
