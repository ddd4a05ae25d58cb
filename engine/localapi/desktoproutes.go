package localapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// Paths of the desktop's part of the API.
const (
	pathSettings = "/local/v1/settings"
	pathPause    = "/local/v1/pause"
	pathResume   = "/local/v1/resume"
	pathHardware = "/local/v1/hardware"
	pathNetwork  = "/local/v1/network"
	pathAccess   = "/local/v1/access"
	pathReport   = "/local/v1/report"
	pathLogs     = "/local/v1/logs"
)

type logLines struct {
	Lines []LogLine `json:"lines"`
}

// Pause is the pause that the order asks for. Error: invalid_request.
func (p PauseOrder) Pause(now time.Time) (policy.Pause, error) {
	said := 0
	for _, on := range []bool{p.Seconds != 0, p.Tomorrow, p.UntilResumed} {
		if on {
			said++
		}
	}
	switch {
	case said != 1:
		return policy.Pause{}, protocol.Errorf(protocol.CodeInvalidRequest, "a pause is for a time, until tomorrow, or until resumed: exactly one of them")
	case p.Tomorrow:
		return policy.PauseTomorrow(now), nil
	case p.UntilResumed:
		return policy.Pause{UntilResumed: true}, nil
	}
	// Seconds that would overflow are too many in any case.
	return policy.PauseFor(now, time.Duration(min(max(p.Seconds, 0), int64(2*policy.MaxPause/time.Second)))*time.Second)
}

func (s *Server) desktopRoutes(mux *http.ServeMux) {
	d := s.o.Desktop
	if d == nil {
		for _, path := range []string{pathSettings, pathPause, pathResume, pathHardware, pathNetwork, pathAccess, pathReport, pathLogs} {
			mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
				refuse(w, protocol.Errorf(protocol.CodeUnsupported,
					"this engine has no desktop part: it was started by \"neuron-engine run\" or \"seed\", and its settings are flags of that command"))
			})
		}
		return
	}
	mux.HandleFunc("GET "+pathSettings, give(func(context.Context) (policy.Settings, error) { return d.Settings(), nil }))
	mux.HandleFunc("PUT "+pathSettings, question(d.SetSettings))
	mux.HandleFunc("POST "+pathPause, order(func(ctx context.Context, p PauseOrder) error {
		if _, err := p.Pause(time.Now()); err != nil {
			return err
		}
		return d.Pause(ctx, p)
	}))
	mux.HandleFunc("POST "+pathResume, order(func(ctx context.Context, _ done) error { return d.Resume(ctx) }))
	mux.HandleFunc("GET "+pathHardware, give(d.Hardware))
	mux.HandleFunc("POST "+pathHardware, question(func(ctx context.Context, _ done) (*Hardware, error) { return d.Probe(ctx) }))
	mux.HandleFunc("GET "+pathNetwork, give(d.Network))
	mux.HandleFunc("GET "+pathAccess, give(d.Access))
	mux.HandleFunc("GET "+pathReport, func(w http.ResponseWriter, r *http.Request) {
		text, err := d.Report(r.Context())
		if err != nil {
			refuse(w, protocol.AsError(err))
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Write([]byte(text))
	})
	mux.HandleFunc("GET "+pathLogs, func(w http.ResponseWriter, r *http.Request) {
		var after int64
		if v := r.URL.Query().Get("after"); v != "" {
			var err error
			if after, err = strconv.ParseInt(v, 10, 64); err != nil || after < 0 {
				refuse(w, protocol.Errorf(protocol.CodeInvalidRequest, "after is the number of a line"))
				return
			}
		}
		lines := d.Logs(after)
		if lines == nil {
			lines = []LogLine{}
		}
		answer(w, logLines{lines})
	})
}
