package opening

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/protocol"
)

func TestParse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	here := func(name string) Target { return Target{Model: filepath.Join(dir, name)} }
	for argument, want := range map[string]Target{
		"a.gguf":                              here("a.gguf"),
		filepath.Join("..", "x", "b.GGUF"):    {Model: filepath.Join(filepath.Dir(dir), "x", "b.GGUF")},
		filepath.Join(dir, "with space.gguf"): here("with space.gguf"),
		"neuron://join?tracker=https%3A%2F%2Ftracker.example%3A7700%2F": {Tracker: "https://tracker.example:7700"},
		"NEURON://JOIN/?tracker=https://tracker.example&from=friend":    {Tracker: "https://tracker.example"},
		"neuron://join?tracker=http://127.0.0.1:7700":                   {Tracker: "http://127.0.0.1:7700"},
		"neuron://join?tracker=http://localhost:7700/":                  {Tracker: "http://localhost:7700"},
	} {
		got, err := Parse(argument, dir)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v", argument, got, err)
		}
	}
	if filepath.Separator == '/' {
		if got, err := Parse("file:///models/a%20b.gguf", dir); err != nil || got.Model != "/models/a b.gguf" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	for _, argument := range []string{
		"", "notes.txt", "file://elsewhere/a.gguf", "file:a.gguf", "file:///a%0a.gguf", "neuron://", "neuron:join?tracker=https://a.example",
		"neuron://join", "neuron://join?tracker=", "neuron://join?tracker=http://tracker.example", "neuron://join?tracker=ftp://a.example",
		"neuron://join?tracker=https://me:secret@a.example", "neuron://join?tracker=https://a.example&tracker=https://b.example",
		"neuron://join?tracker=https://a.example?x=1", "neuron://leave?tracker=https://a.example", "neuron://join/x?tracker=https://a.example",
		"neuron://join?tracker=https://" + strings.Repeat("a", maxTracker), "a\n.gguf", strings.Repeat("a", maxArgument) + ".gguf",
	} {
		got, err := Parse(argument, dir)
		if e := protocol.AsError(err); e == nil || e.Code != protocol.CodeInvalidRequest {
			t.Errorf("%q is taken for %+v, %v", argument, got, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	dir := f.TempDir()
	f.Add("a.gguf")
	f.Add("neuron://join?tracker=https%3A%2F%2Ftracker.example")
	f.Fuzz(func(t *testing.T, argument string) {
		got, err := Parse(argument, dir)
		if err != nil {
			return
		}
		if (got.Model == "") == (got.Tracker == "") {
			t.Errorf("%q: %+v", argument, got)
		}
		if got.Model != "" && (!filepath.IsAbs(got.Model) || !strings.EqualFold(filepath.Ext(got.Model), ".gguf")) {
			t.Errorf("%q: %+v", argument, got)
		}
		if got.Tracker != "" {
			if u, err := url.Parse(got.Tracker); err != nil || u.User != nil || u.Scheme != "https" && !local(u.Hostname()) {
				t.Errorf("%q: %+v", argument, got)
			}
		}
	})
}
