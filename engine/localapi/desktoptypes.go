package localapi

import (
	"context"
	"time"

	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// Desktop is what the API does for the window and the tray besides Source and
// Owner: settings, pauses, hardware, the network's view, and reports. The
// desktop engine implements it; Client is the same from outside. Errors:
// invalid_request, conflict (the settings have changed meanwhile), unavailable.
type Desktop interface {
	Settings() policy.Settings
	// SetSettings takes all settings; the revision is that of the settings that
	// the caller has seen. It answers with what is in force now.
	SetSettings(ctx context.Context, s policy.Settings) (policy.Settings, error)
	// Pause stops sharing for a while; Resume ends it.
	Pause(ctx context.Context, p PauseOrder) error
	Resume(ctx context.Context) error
	// Hardware is what this computer is; Probe measures it again.
	Hardware(ctx context.Context) (*Hardware, error)
	Probe(ctx context.Context) (*Hardware, error)
	// Network is the tracker's view of the network.
	Network(ctx context.Context) (*Network, error)
	// Access says how to reach the OpenAI API of this computer.
	Access(ctx context.Context) (*Access, error)
	// Report is a text for those who help: no prompts, keys or addresses of the user.
	Report(ctx context.Context) (string, error)
	// Logs are the newest lines with a number above after, oldest first.
	Logs(after int64) []LogLine
}

// PauseOrder says how long. Exactly one field is set.
type PauseOrder struct {
	Seconds      int64 `json:"seconds,omitempty"`       // 60 to 604,800
	Tomorrow     bool  `json:"tomorrow,omitempty"`      // until six in the morning, local time
	UntilResumed bool  `json:"until_resumed,omitempty"` // without an end
}

// Sharing is whether others use this computer now, and why not.
type Sharing struct {
	State  protocol.SharingState  `json:"state"`
	Reason protocol.SharingReason `json:"reason,omitempty"`
	// Text says it in English; Detail adds what is particular ("53 % are used by
	// other programs"), "" without.
	Text   string    `json:"text"`
	Detail string    `json:"detail,omitempty"`
	Since  time.Time `json:"since"`
	// Until is when it ends by itself, nil when that is not known.
	Until *time.Time `json:"until,omitempty"`
	// Unknown are the rules that this system gives no answer for: idle, battery,
	// metered, full_screen.
	Unknown []string `json:"unknown,omitempty"`
}

// Work is what this computer does for others, and what came of it.
type Work struct {
	Sessions        int     `json:"sessions"`
	TokensPerSecond float64 `json:"tokens_per_second"` // rows through this computer's layers, over ten seconds
	TokensToday     int64   `json:"tokens_today"`
	// CreditToday is in micro-credits, by the prices in force; Known says that
	// the tracker has told it.
	CreditToday int64 `json:"credit_today"`
	CreditKnown bool  `json:"credit_known"`
	BytesToday  int64 `json:"bytes_today"` // both directions
}

// Hardware is what this computer is and can do.
type Hardware struct {
	CPU      string   `json:"cpu"`
	Cores    int      `json:"cores"`    // physical, 0: not told
	Threads  int      `json:"threads"`  // logical
	Features []string `json:"features"` // of interest for speed: avx2, avx512f, neon, ...
	Memory   int64    `json:"memory"`   // bytes
	Disk     int64    `json:"disk"`     // bytes of the disk with the data folder
	DiskFree int64    `json:"disk_free"`
	GPUs     []GPU    `json:"gpus"`
	// Library are the parts of the native library: "CPU", and "Vulkan" or the like
	// where that is installed, also when it has found no device.
	Library []string `json:"library,omitempty"`
	System  string   `json:"system"` // "Debian 12", "Windows 11", ...
	// Battery is nil without one.
	Battery *Battery `json:"battery,omitempty"`
	// Network says how this computer is connected: wired, wireless, metered, none
	// or unknown.
	Network string `json:"network"`
	// Text is all of it in a few plain sentences.
	Text string `json:"text"`
	// Speed is what a real stage has measured, nil before the first time.
	Speed    *Speed    `json:"speed,omitempty"`
	Measured time.Time `json:"measured"`
}

// GPU is a device of ggml's list.
type GPU struct {
	Name   string `json:"name"`
	Kind   string `json:"kind"` // Vulkan, CUDA, Metal
	Memory int64  `json:"memory"`
	Free   int64  `json:"free"`
	// Usable says that stages of this build can run on it.
	Usable bool `json:"usable"`
}

// Battery is the state of the battery.
type Battery struct {
	Percent  int  `json:"percent"`
	Charging bool `json:"charging"`
	OnPower  bool `json:"on_power"`
}

// Speed is measured with the bundled model on a real stage.
type Speed struct {
	Model           string  `json:"model"`
	StepMicros      int64   `json:"step_us"` // one token through all layers
	TokensPerSecond float64 `json:"tokens_per_second"`
	PrefillPerSec   float64 `json:"prefill_per_second"`
	Threads         int     `json:"threads"`
}

// Network is the tracker's view.
type Network struct {
	Tracker  Tracker        `json:"tracker"`
	Name     string         `json:"name,omitempty"` // of the network, "" when it has none
	Nodes    int            `json:"nodes"`
	Sessions int            `json:"sessions"`
	Models   []NetworkModel `json:"models"`
	Asked    time.Time      `json:"asked"`
}

// NetworkModel is a model of the network's catalog.
type NetworkModel struct {
	Info protocol.ModelInfo `json:"info"`
	// Bytes of the whole model; License as its publisher states it.
	Bytes   int64  `json:"bytes"`
	License string `json:"license,omitempty"`
	Private bool   `json:"private,omitempty"`
	// Local is the range that this node holds, nil for none.
	Local *protocol.Range `json:"local,omitempty"`
}

// Access says how to reach the OpenAI API of this computer. It holds a key.
type Access struct {
	URL string `json:"url"` // "http://127.0.0.1:port/v1"
	Key string `json:"key"`
}

// LogLine is one line of the engine's log.
type LogLine struct {
	Number int64     `json:"number"`
	Time   time.Time `json:"time"`
	Level  string    `json:"level"`
	Part   string    `json:"part"` // which part of the engine
	Text   string    `json:"text"`
}
