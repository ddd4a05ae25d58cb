package desktop

import (
	"context"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"

	"neuron/engine/desktop/report"
	"neuron/internal/version"
)

// Report is a text for those who help.
func (t *table) Report(ctx context.Context) (string, error) {
	e := (*Engine)(t)
	_, g := e.parts()
	c := report.Content{
		At: e.o.Now(), Version: version.String(), Go: runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
		Settings: t.Settings(), Status: (*source)(e).Status(), Gateway: g != nil, Lines: t.Logs(0),
	}
	// A report about a computer that cannot be probed is a report all the same;
	// the log says why.
	if hw, err := e.hw.get(ctx); err == nil {
		c.Hardware = hw
	} else {
		e.log.Warn("The computer could not be probed for a report", "error", err)
	}
	c.Llama = e.hw.library()
	if e.o.LogLost != nil {
		if err := e.o.LogLost(); err != nil {
			c.Lost = err.Error()
		}
	}
	return report.New(e.private()).Write(c), nil
}

// private are the texts of this computer that say something of its user.
func (e *Engine) private() map[string]string {
	s := e.settings.Get()
	out := map[string]string{s.Proxy: "<proxy>", s.Model: "<model>", e.api.Address().Token: "<key>"}
	for _, dir := range []string{e.o.Data, e.o.Owner} {
		if abs, err := filepath.Abs(dir); err == nil {
			out[abs] = "<data>"
		}
		out[dir] = "<data>"
	}
	for _, path := range append([]string{s.Model}, e.o.Models...) {
		if base := filepath.Base(path); strings.HasSuffix(strings.ToLower(base), ".gguf") {
			out[base], out[strings.TrimSuffix(base, filepath.Ext(base))] = "<file>", "<file>"
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		out[home] = "<home>"
	}
	if u, err := user.Current(); err == nil && u.Username != "root" {
		out[u.Username], out[u.Name] = "<user>", "<user>"
	}
	if host, err := os.Hostname(); err == nil && host != "localhost" {
		out[host] = "<host>"
	}
	for _, app := range s.Rules.Apps {
		out[app] = "<program>"
	}
	_, g := e.parts()
	if g != nil {
		out[g.Endpoint().Key] = "<key>"
	}
	delete(out, "")
	return out
}

// levelName is a level as the local API writes it.
func levelName(l slog.Level) string { return strings.ToLower(l.String()) }
