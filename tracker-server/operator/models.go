package operator

import (
	"context"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/tracker-server/store"
)

// ModelPage is the catalog, and what may be published.
type ModelPage struct {
	Models []protocol.CatalogModel `json:"models"`
	// Folders are those that the operator named at the start; Files the GGUF
	// files in them.
	Folders []string `json:"folders"`
	Files   []string `json:"files"`
	Job     *Job     `json:"job,omitempty"`
}

// Job is the newest publishing.
type Job struct {
	Path    string          `json:"path"`
	By      string          `json:"by"`
	Started time.Time       `json:"started"`
	Done    int64           `json:"done_bytes"`
	Total   int64           `json:"total_bytes"` // 0 before the headers are read
	Running bool            `json:"running"`
	Result  *Published      `json:"result,omitempty"`
	Error   *protocol.Error `json:"error,omitempty"`
}

// Percent is how far it is.
func (j *Job) Percent() int {
	if j.Total <= 0 {
		return 0
	}
	return int(min(j.Done, j.Total) * 100 / j.Total)
}

// job is a Job with what ends it; Area.mu guards it.
type job struct {
	Job
	cancel context.CancelFunc
}

// Limits of the list of files.
const (
	maxFiles = 200
	maxDepth = 4
	maxSeen  = 20_000 // entries that are looked at
)

// Models lists catalog and files.
func (a *Area) Models(context.Context) (*ModelPage, error) {
	p := &ModelPage{Models: a.cfg.Network.Catalog(), Folders: a.cfg.PublishFrom, Files: a.files()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.job != nil {
		j := a.job.Job
		p.Job = &j
	}
	return p, nil
}

// files lists what may be published: one file for each split set.
func (a *Area) files() []string {
	out := []string{}
	seen := 0
	for _, root := range a.cfg.PublishFrom {
		depth := strings.Count(filepath.Clean(root), string(filepath.Separator))
		// What cannot be read is not offered; publishing says why.
		_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if seen++; seen > maxSeen || len(out) >= maxFiles {
				return fs.SkipAll
			}
			switch {
			case err != nil:
				return fs.SkipDir
			case d.IsDir() && strings.Count(path, string(filepath.Separator))-depth >= maxDepth:
				return fs.SkipDir
			case d.Type().IsRegular() && strings.EqualFold(filepath.Ext(path), ".gguf") && !laterSplit(path):
				out = append(out, path)
			}
			return nil
		})
	}
	slices.Sort(out)
	return out
}

// laterSplit reports whether a file is a part of a split set, and not the first.
func laterSplit(path string) bool {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(path)), ".gguf")
	i := strings.LastIndex(name, "-of-")
	return i > 6 && name[i-6] == '-' && strings.Trim(name[i-5:i], "0123456789") == "" && name[i-5:i] != "00001"
}

// inside resolves a path and refuses what does not lie in one of the folders,
// also behind links, so that the pages cannot be used to look around on the
// computer. Errors: forbidden, also for files that are not there.
func (a *Area) inside(path string) (string, error) {
	refused := protocol.Errorf(protocol.CodeForbidden, "only GGUF files in the folders given with --publish-from can be published from here")
	if !filepath.IsAbs(path) || !strings.EqualFold(filepath.Ext(path), ".gguf") {
		return "", refused
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", refused
	}
	for _, dir := range a.cfg.PublishFrom {
		root, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		if rel, err := filepath.Rel(root, real); err != nil || !filepath.IsLocal(rel) {
			continue
		}
		if info, err := os.Stat(real); err == nil && info.Mode().IsRegular() && strings.EqualFold(filepath.Ext(real), ".gguf") {
			return real, nil
		}
	}
	return "", refused
}

// PublishInput asks for a model to be published.
type PublishInput struct {
	Path     string   `json:"path"`
	Name     string   `json:"name"`
	License  string   `json:"license"`
	Private  bool     `json:"private"`
	WebSeeds []string `json:"webseeds"`
}

// StartPublish begins to publish a file and returns at once; Models tells how
// far it is. One at a time: hashing takes the whole disk. Errors: forbidden,
// invalid_request, conflict.
func (a *Area) StartPublish(ctx context.Context, by string, in PublishInput) (any, string, error) {
	path, err := a.inside(in.Path)
	if err != nil {
		return nil, "", err
	}
	for _, s := range in.WebSeeds {
		if u, err := url.Parse(s); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return nil, "", protocol.Errorf(protocol.CodeInvalidRequest, "%.200q is not an http or https URL", s)
		}
	}
	j := &job{Job: Job{Path: path, By: by, Started: a.cfg.Now(), Running: true}}
	a.mu.Lock()
	busy := a.closed || a.job != nil && a.job.Running
	a.mu.Unlock()
	if busy {
		return nil, "", errBusy
	}
	d := deed{by: by, action: "publish", subject: path, detail: in.Name}
	err = a.do(ctx, d, func() error {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.closed || a.job != nil && a.job.Running {
			return errBusy
		}
		var jctx context.Context
		jctx, j.cancel = context.WithCancel(a.ctx)
		a.job = j
		a.wg.Go(func() { a.publish(jctx, j, d, in) })
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return map[string]string{"path": path}, "The model is being read; this page shows how far it is.", nil
}

var errBusy = protocol.Errorf(protocol.CodeConflict, "another model is being published; wait for it, or stop it")

// publish is the goroutine of a job.
func (a *Area) publish(ctx context.Context, j *job, d deed, in PublishInput) {
	defer j.cancel()
	r, err := a.put(ctx, j.Path, publish.Options{
		Name: in.Name, License: in.License, Private: in.Private, WebSeeds: in.WebSeeds, Announce: a.cfg.Announce,
		Workers: max(1, runtime.NumCPU()/2), // the tracker goes on
		Progress: func(done, total int64) {
			a.mu.Lock()
			j.Done, j.Total = done, total
			a.mu.Unlock()
		},
	})
	if err != nil {
		a.failed(ctx, d, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	j.Running = false
	if j.Result = r; err != nil {
		j.Error = protocol.AsError(err)
	}
}

// put describes, signs and stores a model, as the command does.
func (a *Area) put(ctx context.Context, path string, o publish.Options) (*Published, error) {
	r, err := publish.Build(ctx, []string{path}, o)
	if err != nil {
		return nil, err
	}
	m := r.Manifest
	s, err := manifest.Sign(m, a.cfg.Signer)
	if err != nil {
		return nil, err
	}
	changed, err := a.cfg.Store.Publish(ctx, store.CatalogModel{
		Model: m.Model, Name: m.Name, InfoHash: r.InfoHash, Private: m.Torrent.Private, WebSeeds: o.WebSeeds,
		Published: a.cfg.Now(), Manifest: s.Raw, Torrent: r.Torrent,
	})
	if err != nil {
		return nil, err
	}
	a.cfg.Network.ReloadCatalog(ctx)
	return &Published{Model: m.Model, Name: m.Name, Changed: changed}, nil
}

// StopPublish cancels the publishing that runs. Error: not_found without one.
func (a *Area) StopPublish(ctx context.Context, by string, _ struct{}) (any, string, error) {
	a.mu.Lock()
	j := a.job
	if j != nil && !j.Running {
		j = nil
	}
	a.mu.Unlock()
	if j == nil {
		return nil, "", protocol.Errorf(protocol.CodeNotFound, "nothing is being published")
	}
	err := a.do(ctx, deed{by: by, action: "publish stop", subject: j.Path}, func() error { j.cancel(); return nil })
	return map[string]string{"path": j.Path}, "Publishing stops.", err
}

// ModelInput names a published model.
type ModelInput struct {
	ID     string `path:"id"`
	Reason string `json:"reason"`
}

// Unpublish takes a model out of the catalog. Errors: model_not_found, conflict
// for a beginning that several have.
func (a *Area) Unpublish(ctx context.Context, by string, in ModelInput) (any, string, error) {
	all := map[protocol.ModelID]string{}
	id := protocol.ModelID("")
	for _, m := range a.cfg.Network.Catalog() {
		if all[m.Model] = m.Name; m.Name == in.ID {
			id = m.Model
		}
	}
	if id == "" {
		var err error
		if id, err = pick(in.ID, "model", all); err != nil {
			return nil, "", err
		}
	}
	err := a.do(ctx, deed{by: by, action: "unpublish", subject: string(id), reason: in.Reason, detail: all[id]}, func() error {
		return a.cfg.Store.Unpublish(ctx, id)
	})
	a.cfg.Network.ReloadCatalog(ctx)
	return map[string]any{"model": id, "name": all[id]}, fmt.Sprintf("The model %s is no longer published. Nodes that hold it go on serving it.", all[id]), err
}
