package policy

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"neuron/engine/protocol"
)

// Bounds of settings.
const (
	MaxIdleMinutes = 120
	MinBusyPercent = 5
	MaxApps        = 50
	MaxGPUs        = 16
	MaxSessions    = 64
	MaxThreads     = 1024
	// MinRate keeps a transfer from hanging by a slip of the pen (5 for 5 MB/s).
	MinRate = 16 << 10
	// MinMemory is the least that a stage can do anything with, MinDisk and
	// MinDay the least that can hold and fetch a layer.
	MinMemory = 256 << 20
	MinDisk   = 256 << 20
	MinDay    = 16 << 20
	// MaxBytes bounds every size and rate: an exabyte.
	MaxBytes = 1 << 60

	maxName = 200
	maxText = 4096
)

// field is one field of the settings: what is wrong with it, "" when nothing
// is, and how to bring it back to a default.
type field struct {
	name  string
	wrong func(s *Settings) string
	reset func(s, def *Settings)
}

// fields are those that can be wrong, by the names of their JSON form.
var fields = []field{
	{"revision", func(s *Settings) string { return unless(s.Revision >= 0, "is not a count") }, func(s, def *Settings) { s.Revision = def.Revision }},
	{"pause", func(s *Settings) string {
		return unless(!s.Pause.UntilResumed || s.Pause.Until.IsZero(), "has an end and none")
	}, func(s, _ *Settings) { s.Pause = Pause{UntilResumed: true} }}, // the careful reading
	{"tracker", func(s *Settings) string {
		return address(s.Tracker, "the network's address", "http", "https", "ws", "wss")
	}, func(s, def *Settings) { s.Tracker = def.Tracker }},
	{"model", func(s *Settings) string { return text(s.Model, maxText) }, func(s, def *Settings) { s.Model, s.Layers = def.Model, def.Layers }},
	{"layers", func(s *Settings) string { return layers(s.Model, s.Layers) }, func(s, def *Settings) { s.Layers = def.Layers }},
	{"rules.idle_minutes", func(s *Settings) string {
		return unless(s.Rules.IdleMinutes >= 1 && s.Rules.IdleMinutes <= MaxIdleMinutes, "is 1 to 120 minutes")
	}, func(s, def *Settings) { s.Rules.IdleMinutes = def.Rules.IdleMinutes }},
	{"rules.busy_percent", func(s *Settings) string {
		p := s.Rules.BusyPercent
		return unless(p == 0 || p >= MinBusyPercent && p <= 100, "is 0 (never) or 5 to 100 percent")
	}, func(s, def *Settings) { s.Rules.BusyPercent = def.Rules.BusyPercent }},
	{"rules.apps", func(s *Settings) string {
		if i := slices.IndexFunc(s.Rules.Apps, func(a string) bool { return ProgramName(a) == "" }); i >= 0 {
			return "has a program without a name"
		}
		return names(s.Rules.Apps, MaxApps, "programs")
	}, func(s, def *Settings) { s.Rules.Apps = def.Rules.Apps }},
	{"schedule.hours", func(s *Settings) string {
		return unless(!slices.ContainsFunc(s.Schedule.Hours[:], func(h uint32) bool { return h > allDay }), "has more than 24 hours in a day")
	}, func(s, _ *Settings) {
		for i := range s.Schedule.Hours {
			s.Schedule.Hours[i] &= allDay
		}
	}},
	{"limits.threads", func(s *Settings) string { return within(int64(s.Limits.Threads), 1, MaxThreads) }, func(s, def *Settings) { s.Limits.Threads = def.Limits.Threads }},
	{"limits.gpus", func(s *Settings) string { return names(s.Limits.GPUs, MaxGPUs, "devices") }, func(s, def *Settings) { s.Limits.GPUs = def.Limits.GPUs }},
	{"limits.memory_bytes", func(s *Settings) string { return within(s.Limits.MemoryBytes, MinMemory, MaxBytes) }, func(s, def *Settings) { s.Limits.MemoryBytes = def.Limits.MemoryBytes }},
	{"limits.disk_bytes", func(s *Settings) string { return within(s.Limits.DiskBytes, MinDisk, MaxBytes) }, func(s, def *Settings) { s.Limits.DiskBytes = def.Limits.DiskBytes }},
	{"limits.keep_free", func(s *Settings) string { return within(s.Limits.KeepFree, 1, MaxBytes) }, func(s, def *Settings) { s.Limits.KeepFree = def.Limits.KeepFree }},
	{"limits.up_rate", func(s *Settings) string { return within(s.Limits.UpRate, MinRate, MaxBytes) }, func(s, def *Settings) { s.Limits.UpRate = def.Limits.UpRate }},
	{"limits.down_rate", func(s *Settings) string { return within(s.Limits.DownRate, MinRate, MaxBytes) }, func(s, def *Settings) { s.Limits.DownRate = def.Limits.DownRate }},
	{"limits.day_bytes", func(s *Settings) string { return within(s.Limits.DayBytes, MinDay, MaxBytes) }, func(s, def *Settings) { s.Limits.DayBytes = def.Limits.DayBytes }},
	{"limits.sessions", func(s *Settings) string { return within(int64(s.Limits.Sessions), 1, MaxSessions) }, func(s, def *Settings) { s.Limits.Sessions = def.Limits.Sessions }},
	{"proxy", func(s *Settings) string { return address(s.Proxy, "a proxy's address", "http", "https", "socks5") }, func(s, def *Settings) { s.Proxy = def.Proxy }},
	{"updates.feed", func(s *Settings) string { return address(s.Updates.Feed, "a list of releases", "https") }, func(s, def *Settings) { s.Updates.Feed = def.Updates.Feed }},
	{"updates.channel", func(s *Settings) string {
		return unless(channelForm.MatchString(s.Updates.Channel), "is a word of small letters")
	}, func(s, def *Settings) { s.Updates.Channel = def.Updates.Channel }},
}

var channelForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}$`)

// Check says whether the settings can be used. The error is a *protocol.Error
// with the code invalid_request, whose Param names the field as the JSON form
// does ("rules.idle_minutes"), or unsupported for a form that this build does
// not know.
func (s Settings) Check() error {
	if s.Form != Form {
		return protocol.Errorf(protocol.CodeUnsupported, "settings of form %d; this version of Neuron knows form %d", s.Form, Form)
	}
	for _, f := range fields {
		if w := f.wrong(&s); w != "" {
			return invalid(f.name, "%s %s", f.name, w)
		}
	}
	return nil
}

// Clone shares no memory with s.
func (s Settings) Clone() Settings {
	s.Rules.Apps = append([]string{}, s.Rules.Apps...)
	s.Limits.GPUs = append([]string{}, s.Limits.GPUs...)
	return s
}

func unless(ok bool, wrong string) string {
	if ok {
		return ""
	}
	return wrong
}

// within is for limits, where 0 is no limit.
func within(n, least, most int64) string {
	return unless(n == 0 || n >= least && n <= most, "is too small or too large")
}

func text(s string, most int) string {
	return unless(len(s) <= most && utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl), "is too long, or not plain text")
}

func names(list []string, most int, what string) string {
	if len(list) > most {
		return "has too many " + what
	}
	for _, n := range list {
		if n == "" || text(n, maxName) != "" {
			return "has a name that is empty, too long, or not plain text"
		}
	}
	return ""
}

func address(s, what string, schemes ...string) string {
	if s == "" {
		return ""
	}
	u, err := url.Parse(s)
	if text(s, maxText) != "" || err != nil || u.Hostname() == "" || !slices.Contains(schemes, u.Scheme) {
		return "is not " + what + ": " + strings.Join(schemes, ", ") + ", then :// and a host"
	}
	return ""
}

func layers(model, s string) string {
	if s == "" {
		return ""
	}
	if model == "" {
		return "needs a model"
	}
	if _, err := protocol.ParseRange(s); err != nil && s != "all" {
		return `is "all" or FIRST-LAST`
	}
	return ""
}
