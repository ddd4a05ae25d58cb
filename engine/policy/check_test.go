package policy

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
)

func codeOf(err error) protocol.Code {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestDefaultsPassAndShareNothing(t *testing.T) {
	t.Parallel()
	d := Defaults()
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	if d.Share || d.SetUp || d.Rules.OnBattery || d.Rules.OnMetered || d.Rules.BusyPercent == 0 || !d.Rules.FullScreen {
		t.Errorf("%+v", d)
	}
}

// TestCheckNamesTheField breaks each field at both of its ends.
func TestCheckNamesTheField(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 5000)
	for _, c := range []struct {
		field string
		bad   func(*Settings)
	}{
		{"revision", func(s *Settings) { s.Revision = -1 }},
		{"pause", func(s *Settings) { s.Pause = Pause{UntilResumed: true, Until: time.Unix(1, 0)} }},
		{"tracker", func(s *Settings) { s.Tracker = "tracker.example" }},
		{"tracker", func(s *Settings) { s.Tracker = "ftp://tracker.example" }},
		{"tracker", func(s *Settings) { s.Tracker = "https://" }},
		{"tracker", func(s *Settings) { s.Tracker = "https://a/" + long }},
		{"model", func(s *Settings) { s.Model = long }},
		{"model", func(s *Settings) { s.Model = "a\nb" }},
		{"layers", func(s *Settings) { s.Layers = "all" }},
		{"layers", func(s *Settings) { s.Model, s.Layers = "m", "4-4" }},
		{"rules.idle_minutes", func(s *Settings) { s.Rules.IdleMinutes = 0 }},
		{"rules.idle_minutes", func(s *Settings) { s.Rules.IdleMinutes = 121 }},
		{"rules.busy_percent", func(s *Settings) { s.Rules.BusyPercent = 4 }},
		{"rules.busy_percent", func(s *Settings) { s.Rules.BusyPercent = -1 }},
		{"rules.busy_percent", func(s *Settings) { s.Rules.BusyPercent = 101 }},
		{"rules.apps", func(s *Settings) { s.Rules.Apps = slices.Repeat([]string{"a"}, 51) }},
		{"rules.apps", func(s *Settings) { s.Rules.Apps = []string{""} }},
		{"rules.apps", func(s *Settings) { s.Rules.Apps = []string{"/usr/bin/"} }},
		{"rules.apps", func(s *Settings) { s.Rules.Apps = []string{"a\xff"} }},
		{"schedule.hours", func(s *Settings) { s.Schedule.Hours[3] = 1 << 24 }},
		{"limits.threads", func(s *Settings) { s.Limits.Threads = -1 }},
		{"limits.threads", func(s *Settings) { s.Limits.Threads = 1025 }},
		{"limits.gpus", func(s *Settings) { s.Limits.GPUs = []string{strings.Repeat("g", 201)} }},
		{"limits.memory_bytes", func(s *Settings) { s.Limits.MemoryBytes = 1 << 20 }},
		{"limits.disk_bytes", func(s *Settings) { s.Limits.DiskBytes = -5 }},
		{"limits.keep_free", func(s *Settings) { s.Limits.KeepFree = -1 }},
		{"limits.up_rate", func(s *Settings) { s.Limits.UpRate = 5 }},
		{"limits.down_rate", func(s *Settings) { s.Limits.DownRate = 1<<60 + 1 }},
		{"limits.day_bytes", func(s *Settings) { s.Limits.DayBytes = 1 }},
		{"limits.sessions", func(s *Settings) { s.Limits.Sessions = 65 }},
		{"proxy", func(s *Settings) { s.Proxy = "ws://proxy" }},
	} {
		s := Defaults()
		c.bad(&s)
		var e *protocol.Error
		if !errors.As(s.Check(), &e) || e.Code != protocol.CodeInvalidRequest || e.Param != c.field || !strings.HasPrefix(e.Message, c.field) {
			t.Errorf("%s: %v (%+v)", c.field, s.Check(), e)
		}
		// The same, stored, becomes something that can be used.
		raw, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		got, mended, err := Parse(raw)
		if err != nil && len(raw) <= MaxSize {
			t.Errorf("%s: %v", c.field, err)
		}
		if err == nil && (!slices.Equal(mended, []string{c.field}) && !strings.Contains(string(raw), `\ufffd`)) {
			t.Errorf("%s: mended %v", c.field, mended)
		}
		if err == nil && got.Check() != nil {
			t.Errorf("%s: still wrong: %v", c.field, got.Check())
		}
	}
	s := Defaults()
	s.Form = 2
	if codeOf(s.Check()) != protocol.CodeUnsupported {
		t.Errorf("form 2: %v", s.Check())
	}
}

func TestGoodValuesPass(t *testing.T) {
	t.Parallel()
	s := Defaults()
	s.Tracker, s.Proxy, s.Model, s.Layers = "wss://tracker.example:8080/v1", "socks5://127.0.0.1:1080", "/models/größe.gguf", "0-12"
	s.Rules.Apps = []string{"Blender", `C:\Games\game.exe`, "Музыка"}
	s.Limits = Limits{Threads: 4, GPUs: []string{"Vulkan0"}, MemoryBytes: 8 << 30, DiskBytes: 100 << 30, UpRate: MinRate, DownRate: 1 << 20, DayBytes: 1 << 30, Sessions: 64}
	s.Schedule = Schedule{On: true}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	back, mended, err := Parse(raw)
	if err != nil || len(mended) != 0 {
		t.Fatal(mended, err)
	}
	if d := cmp.Diff(s, back); d != "" {
		t.Error(d)
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	def := Defaults()
	with := func(change func(*Settings)) Settings {
		s := Defaults()
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		raw    string
		want   Settings
		mended []string
	}{
		"an empty object":             {`{}`, def, nil},
		"a form before the first":     {`{"form":0,"share":true,"rules":{"only_idle":true}}`, with(func(s *Settings) { s.Share, s.Rules.OnlyIdle = true, true }), nil},
		"fields of a later version":   {`{"form":1,"share":true,"mood":"good"}`, with(func(s *Settings) { s.Share = true }), nil},
		"lists that are null":         {`{"form":1,"rules":{"apps":null},"limits":{"gpus":null}}`, def, nil},
		"a value of a wrong type":     {`{"form":1,"rules":{"idle_minutes":"ten","only_idle":true},"share":true}`, with(func(s *Settings) { s.Share, s.Rules.OnlyIdle = true, true }), []string{"rules.idle_minutes"}},
		"a pause that cannot be read": {`{"form":1,"pause":{"until":"soon"},"share":true}`, with(func(s *Settings) { s.Share, s.Pause.UntilResumed = true, true }), []string{"pause"}},
		"two faults":                  {`{"form":1,"rules":{"idle_minutes":0},"limits":{"sessions":-4}}`, def, []string{"rules.idle_minutes", "limits.sessions"}},
	} {
		got, mended, err := Parse([]byte(c.raw))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if !slices.Equal(mended, c.mended) {
			t.Errorf("%s: mended %v", name, mended)
		}
	}
	for raw, want := range map[string]protocol.Code{
		``: protocol.CodeInvalidRequest, `null`: protocol.CodeInvalidRequest, `[]`: protocol.CodeInvalidRequest, `{"form":`: protocol.CodeInvalidRequest,
		`{"form":"x"}`: protocol.CodeInvalidRequest, `{"form":2}`: protocol.CodeUnsupported,
		`{"tracker":"` + strings.Repeat("x", MaxSize) + `"}`: protocol.CodeInvalidRequest,
	} {
		if _, _, err := Parse([]byte(raw)); codeOf(err) != want {
			t.Errorf("%.40q: %v", raw, err)
		}
	}
}

func TestCloneSharesNothing(t *testing.T) {
	t.Parallel()
	s := Defaults()
	s.Rules.Apps, s.Limits.GPUs = []string{"a"}, []string{"b"}
	c := s.Clone()
	c.Rules.Apps[0], c.Limits.GPUs[0] = "x", "y"
	if s.Rules.Apps[0] != "a" || s.Limits.GPUs[0] != "b" {
		t.Errorf("%+v", s)
	}
}

func TestProgramName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Game.EXE": "game", `C:\Program Files\A B\Blender.exe`: "blender", "/usr/bin/steam": "steam", "/Applications/Final Cut.app": "final cut",
		" vlc ": "vlc", ".exe": ".exe", "": "", "/": "",
	} {
		if got := ProgramName(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

// FuzzParse: whatever lies on the disk, what comes out can be used and stored,
// and reads back as itself.
func FuzzParse(f *testing.F) {
	raw, err := json.Marshal(Defaults())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	for _, s := range []string{
		`{}`, `null`, `{"form":2}`, `{"form":0,"share":true}`, `{"form":1,"pause":{"until":"2026-11-30T10:00:00+01:00"}}`,
		`{"form":1,"pause":{"until":"soon"}}`, `{"form":1,"PAUSE":{"until":"soon"}}`, `{"schedule":{"on":true,"hours":[1,2,3,4,5,6,7,8]}}`,
		`{"schedule":{"hours":[4294967295]}}`, `{"rules":{"apps":["a/","\ud800"]}}`, `{"limits":{"up_rate":1e30}}`, `{"revision":-9223372036854775808}`,
		`{"model":"","layers":"all"}`, `{"proxy":"http://u:p@h:99999"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, _, err := Parse(raw)
		if err != nil {
			if c := codeOf(err); c != protocol.CodeInvalidRequest && c != protocol.CodeUnsupported {
				t.Fatalf("code %q: %v", c, err)
			}
			return
		}
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		out, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if len(out) > MaxSize {
			return // escapes made it longer
		}
		again, mended, err := Parse(out)
		if err != nil || len(mended) != 0 {
			t.Fatalf("%s: mended %v, %v", out, mended, err)
		}
		if d := cmp.Diff(s, again); d != "" {
			t.Fatal(d)
		}
	})
}
