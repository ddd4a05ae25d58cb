package program

import (
	"context"
	"path/filepath"
	"sync"
	"time"

	"neuron/engine/artifact"
	"neuron/engine/gateway"
	"neuron/engine/library"
	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/engine/swarm"
)

// texts are the text tools of the gateway's models: of files that it was given,
// and of models of the catalog, whose metadata (tokenizer, template) is fetched
// at the first request for one.
type texts struct {
	spawn  stage.Spawn
	native string
	lib    *library.Library
	// connected waits a little for the tracker; set before the first request.
	connected func(context.Context)
	// life ends with close, which waits for work.
	life context.Context
	end  context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	models []*textModel           // guarded by mu
	coming map[string]*textComing // by what was asked for; guarded by mu
}

// textComing is a model that is being fetched for one or more requests.
type textComing struct {
	done chan struct{}
	err  error // valid after done
}

// textModel implements gateway.TextModel.
type textModel struct {
	*stage.Text
	info     protocol.ModelInfo
	context  int
	template string
	bos, eos string
	addBOS   bool
}

// fetchPatience bounds the wait for a model's metadata: a few megabytes.
const fetchPatience = time.Minute

func newTexts(ctx context.Context, o GatewayOptions, sp stage.Spawn, lib *library.Library) (_ *texts, err error) {
	t := &texts{spawn: sp, native: o.NativeDir, lib: lib, coming: map[string]*textComing{}}
	t.life, t.end = context.WithCancel(context.WithoutCancel(ctx))
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	for _, path := range o.Models {
		src, err := artifact.Inspect(ctx, path, o.Data, o.Log("artifact"))
		if err != nil {
			return nil, err
		}
		if _, err := t.add(ctx, src, path); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// add starts the text tools of a model whose metadata is in the GGUF at path.
func (t *texts) add(ctx context.Context, src *artifact.Source, path string) (*textModel, error) {
	m := &textModel{Text: stage.NewText(t.spawn, t.native, path), info: protocol.ModelInfo{
		Model: src.ID, Name: src.Name, Architecture: src.Model.Arch, Layers: src.Model.Layers, Context: src.Context(),
	}}
	about, _, err := m.Text.About(ctx)
	if err != nil {
		m.Close()
		return nil, err
	}
	m.context = src.Context() // a vocabulary alone does not know it
	m.template, m.bos, m.eos, m.addBOS = about.Template, about.BOS, about.EOS, about.AddBOS
	t.mu.Lock()
	t.models = append(t.models, m)
	t.mu.Unlock()
	return m, nil
}

// Text implements session.Texts.
func (t *texts) Text(ctx context.Context, model string) (gateway.TextModel, error) {
	t.mu.Lock()
	if m := t.findLocked(model); m != nil {
		t.mu.Unlock()
		return m, nil
	}
	c := t.coming[model]
	if c == nil {
		// The first request fetches for all; it outlives that request, so that
		// an impatient client does not start it anew each time.
		c = &textComing{done: make(chan struct{})}
		t.coming[model] = c
		t.work.Go(func() { t.fetch(model, c) })
	}
	t.mu.Unlock()
	select {
	case <-c.done:
	case <-ctx.Done():
		return nil, protocol.Errorf(protocol.CodeTimeout, "the tokenizer of %.100q is being fetched: %w", model, context.Cause(ctx))
	}
	if c.err != nil {
		return nil, c.err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.findLocked(model); m != nil {
		return m, nil
	}
	return nil, protocol.Errorf(protocol.CodeModelUnknown, "the model %.100q is not served here", model)
}

func (t *texts) findLocked(model string) *textModel {
	for _, m := range t.models {
		if model == m.info.Name || model == string(m.info.Model) {
			return m
		}
	}
	return nil
}

// fetch gets the metadata of a model of the catalog.
func (t *texts) fetch(model string, c *textComing) {
	ctx, cancel := context.WithTimeout(t.life, fetchPatience)
	defer cancel()
	c.err = t.fetchStem(ctx, model)
	t.mu.Lock()
	delete(t.coming, model)
	t.mu.Unlock()
	close(c.done)
}

func (t *texts) fetchStem(ctx context.Context, model string) error {
	t.connected(ctx)
	m, err := t.lib.Find(ctx, model)
	if err != nil {
		return err
	}
	if err := t.lib.Fetch(ctx, m, nil, func(swarm.ModelStatus) {}); err != nil {
		if ctx.Err() != nil {
			return protocol.Errorf(protocol.CodeUnavailable, "the tokenizer of %s could not be fetched within %s; more nodes may have it soon", m.Manifest.Name, fetchPatience)
		}
		return err
	}
	src, err := artifact.OpenMetadata(m.Dir, m.Manifest)
	if err != nil {
		return err
	}
	_, err = t.add(ctx, src, filepath.Join(m.Dir, artifact.MetadataFile))
	return err
}

// names are the models whose tools are ready.
func (t *texts) names() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := []string{}
	for _, m := range t.models {
		out = append(out, m.info.Name)
	}
	return out
}

func (t *texts) close() {
	t.end()
	t.work.Wait()
	for _, m := range t.models {
		m.Text.Close()
	}
}

func (m *textModel) Info() protocol.ModelInfo { return m.info }
func (m *textModel) ContextLength() int       { return m.context }
func (m *textModel) ChatTemplate() string     { return m.template }
func (m *textModel) BOS() string              { return m.bos }
func (m *textModel) EOS() string              { return m.eos }
func (m *textModel) AddBOS() bool             { return m.addBOS }

var _ gateway.TextModel = (*textModel)(nil)
