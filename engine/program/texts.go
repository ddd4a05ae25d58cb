package program

import (
	"context"

	"neuron/engine/artifact"
	"neuron/engine/gateway"
	"neuron/engine/protocol"
	"neuron/engine/stage"
)

// texts are the text tools of the gateway's models.
type texts struct {
	llama  string
	models []*textModel
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

func newTexts(ctx context.Context, o GatewayOptions) (_ *texts, err error) {
	if len(o.Models) == 0 {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "a gateway needs at least one model file, for its tokenizer")
	}
	t := &texts{}
	defer func() {
		if err != nil {
			t.close()
		}
	}()
	sp, err := spawn(o.Exe, o.Log)
	if err != nil {
		return nil, err
	}
	for _, path := range o.Models {
		src, err := artifact.Inspect(ctx, path, o.Data, o.Log("artifact"))
		if err != nil {
			return nil, err
		}
		m := &textModel{Text: stage.NewText(sp, o.NativeDir, path), info: protocol.ModelInfo{
			Model: src.ID, Name: src.Name, Architecture: src.Model.Arch, Layers: src.Model.Layers, Context: src.Context(),
		}}
		t.models = append(t.models, m)
		about, llamaVersion, err := m.Text.About(ctx)
		if err != nil {
			return nil, err
		}
		t.llama = llamaVersion
		m.context = src.Context() // a vocabulary alone does not know it
		m.template, m.bos, m.eos, m.addBOS = about.Template, about.BOS, about.EOS, about.AddBOS
	}
	return t, nil
}

// Text implements session.Texts.
func (t *texts) Text(_ context.Context, model string) (gateway.TextModel, error) {
	for _, m := range t.models {
		if model == m.info.Name || model == string(m.info.Model) {
			return m, nil
		}
	}
	return nil, protocol.Errorf(protocol.CodeModelUnknown, "the model %.100q is not served here", model)
}

func (t *texts) names() []string {
	var out []string
	for _, m := range t.models {
		out = append(out, m.info.Name)
	}
	return out
}

func (t *texts) close() {
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
