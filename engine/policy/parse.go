package policy

import (
	"encoding/json"
	"errors"

	"neuron/engine/protocol"
)

// MaxSize bounds the JSON form of settings, in bytes.
const MaxSize = 64 << 10

// Parse reads the stored JSON form. What is missing gets its default, so that
// forms of older versions become this one; a field with a value that cannot be
// used gets a safe one, and its name stands in mended. Either way the result
// passes Check.
//
// An error means that nothing can be read out of it: invalid_request for what is
// no JSON object or larger than MaxSize, unsupported for the form of a newer
// version, whose settings must not be lost by writing over them.
func Parse(raw []byte) (s Settings, mended []string, err error) {
	if len(raw) > MaxSize {
		return Settings{}, nil, protocol.Errorf(protocol.CodeInvalidRequest, "settings of %d bytes; the most is %d", len(raw), MaxSize)
	}
	var form *struct {
		Form int `json:"form"`
	}
	if err := json.Unmarshal(raw, &form); err != nil || form == nil {
		return Settings{}, nil, protocol.Errorf(protocol.CodeInvalidRequest, "the settings cannot be read: %w", errors.Join(err, errNoObject))
	}
	if form.Form > Form {
		return Settings{}, nil, protocol.Errorf(protocol.CodeUnsupported, "the settings are of form %d, by a newer version of Neuron; this one knows form %d", form.Form, Form)
	}
	s = Defaults()
	// The pause apart: a time that cannot be read would end the reading of all.
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(raw, &parts); err != nil {
		return Settings{}, nil, protocol.Errorf(protocol.CodeInvalidRequest, "the settings cannot be read: %w", err)
	}
	if pause, ok := parts["pause"]; ok {
		if err := json.Unmarshal(pause, &s.Pause); err != nil {
			s.Pause = Pause{UntilResumed: true}
			mended = append(mended, "pause")
		}
		delete(parts, "pause")
	}
	rest, err := json.Marshal(parts)
	if err == nil {
		err = json.Unmarshal(rest, &s)
	}
	// A value of a wrong type keeps its default; the rest is read all the same.
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrong):
		mended = append(mended, wrong.Field)
	case err != nil:
		return Settings{}, nil, protocol.Errorf(protocol.CodeInvalidRequest, "the settings cannot be read: %w", err)
	}
	// Forms before 1 had fewer fields and no other meanings.
	s.Form = Form
	if s.Rules.Apps == nil {
		s.Rules.Apps = []string{}
	}
	if s.Limits.GPUs == nil {
		s.Limits.GPUs = []string{}
	}
	def := Defaults()
	for _, f := range fields {
		if f.wrong(&s) != "" {
			f.reset(&s, &def)
			mended = append(mended, f.name)
		}
	}
	return s, mended, nil
}

var errNoObject = errors.New("not a JSON object")
