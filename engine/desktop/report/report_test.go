package report_test

import (
	"strings"
	"testing"
	"time"

	"neuron/engine/desktop/report"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

var alice = report.New(map[string]string{"/home/alice": "<home>", `C:\Users\Alice B`: "<home>", "alice": "<user>", "secret model": "<file>", "": "<never>", "ab": "<never>"})

func TestTextLosesWhatIsTheUsers(t *testing.T) {
	t.Parallel()
	for in, secrets := range map[string][]string{
		"open /home/alice/models/private.gguf: no such file":             {"alice", "private", "models"},
		`path="/home/bob smith/some file.txt" error=x`:                   {"bob", "smith", "some"},
		"open /srv/big disk/strange name.gguf failed":                    {"srv", "name.gguf"},
		`open C:\Users\Alice B\Documents\x.txt: no`:                      {"Alice", "Documents"},
		`path="C:\\Users\\Alice B\\x"`:                                   {"Alice"},
		`\\server\share\x.gguf`:                                          {"server", "x.gguf"},
		"proxy http://someone:hidden@proxy.example:8080 used":            {"someone", "hidden"},
		"Authorization: Bearer abcdef.123-x":                             {"abcdef"},
		"key nk-0123456789abcdef0123 refused":                            {"0123456789"},
		`token="a b c" passphrase=hunter2 api_key=zzz`:                   {"a b c", "hunter2", "zzz"},
		"-----BEGIN PRIVATE KEY-----\nMC4CAQ\n-----END PRIVATE KEY-----": {"MC4CAQ"},
		`"-----BEGIN PRIVATE KEY-----\nMC4CAQ`:                           {"MC4CAQ"},
		"digest " + strings.Repeat("0f", 32):                             {strings.Repeat("0f", 24)},
		"model secret model is loaded by alice":                          {"secret model", "alice"},
		"relative dir/other.gguf and ~/x.txt":                            {"other", "x.txt"},
	} {
		got := alice.Text(in)
		for _, s := range secrets {
			if strings.Contains(got, s) {
				t.Errorf("%q became %q, which has %q", in, got, s)
			}
		}
	}
}

// TestTextKeepsTheRest: what helps is still there.
func TestTextKeepsTheRest(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"Stage ready layers=0-8 pid=15786 step_us=728", "tracker https://tracker.example:7700/v1/nodes connected",
		"session s-ouvpvmoirhqj7zzmnrthp6wq3i ended with code hop_lost", "2.1 GB/s and 3 / 4", "node e5ydvs7h", "date 2026-11-30T12:00:00Z",
		"no space left on device", "and/or", "keys are kept", "the token is another one now",
	} {
		if got := alice.Text(in); got != in {
			t.Errorf("%q became %q", in, got)
		}
	}
}

// TestWrite says everything it is given but what is private by its place.
func TestWrite(t *testing.T) {
	t.Parallel()
	s := policy.Defaults()
	s.Tracker, s.Proxy, s.Model, s.Rules.Apps = "https://planted.example", "http://planted", "planted-model", []string{"planted-game"}
	c := report.Content{
		At: time.Unix(0, 0).UTC(), Version: "v9", Llama: "0.4.0", Go: "go1.26 linux/amd64", Settings: s, Gateway: true, Lost: "disk full",
		Hardware: &localapi.Hardware{CPU: "a processor", System: "Debian 12", Cores: 2, Threads: 4, Features: []string{"avx2"},
			GPUs: []localapi.GPU{{Name: "a card", Kind: "Vulkan"}}, Speed: &localapi.Speed{Model: "m", TokensPerSecond: 12.5}},
		Status: localapi.Status{
			Policy: &localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingBattery, Text: "Paused.", Detail: "53 %", Unknown: []string{"idle"}},
			Shards: []localapi.Shard{{Range: protocol.Range{First: 2, Last: 5}, State: protocol.ShardReady}},
			Work:   &localapi.Work{TokensToday: 77}, Transfers: []localapi.Transfer{{State: "complete", Peers: 3}},
			Health: []localapi.HealthEntry{{Code: protocol.CodeDiskFull, Severity: localapi.SeverityError, Text: "the disk is full"}},
		},
	}
	for i := range 500 {
		c.Lines = append(c.Lines, localapi.LogLine{Number: int64(i + 1), Level: "info", Part: "seam", Text: "line", Time: time.Unix(int64(i), 0)})
	}
	got := report.New(nil).Write(c)
	for _, want := range []string{"v9", "0.4.0", "a processor", "Debian 12", "avx2", "a card", "12.5 tokens/s", "on_battery", "53 %", "idle", "2-5", "77 tokens", "disk_full", "the disk is full", "lines are missing", "proxy set true"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%.3000s", want, got)
		}
	}
	if strings.Contains(got, "planted") {
		t.Errorf("a private setting is in\n%.3000s", got)
	}
	if n := strings.Count(got, " info seam line"); n != 200 {
		t.Errorf("%d lines of the log", n)
	}
	if strings.Contains(report.New(nil).Write(report.Content{}), "%!") {
		t.Error("a verb went wrong")
	}
}

func FuzzText(f *testing.F) {
	f.Fuzz(func(t *testing.T, in string) {
		out := alice.Text(in)
		for _, s := range []string{"/home/alice", "secret model"} {
			if strings.Contains(out, s) {
				t.Errorf("%q became %q", in, out)
			}
		}
	})
}
