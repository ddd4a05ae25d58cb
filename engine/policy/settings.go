// Package policy decides whether this computer shares, from the user's settings
// and from what the system tells of its user, its power, its network and its
// load. It is pure: settings, signals and a time go in, a decision comes out.
//
// engine/desktop applies decisions, engine/host reads the signals; window, tray
// and command line import the settings. It imports engine/protocol alone.
package policy

import "time"

// Form is the version of Settings' form.
const Form = 1

// Settings are what the user has chosen for this computer. The zero value is
// not of use: see Defaults.
type Settings struct {
	Form int `json:"form"`
	// Revision counts changes; a change must name the revision that it saw.
	Revision int64 `json:"revision"`
	// SetUp says that the questions of the first start are answered.
	SetUp bool `json:"set_up"`
	// Share says whether others may use this computer at all.
	Share bool `json:"share"`
	// Pause ends sharing for a while.
	Pause Pause `json:"pause"`
	// Tracker is the network's address, "" for none.
	Tracker string `json:"tracker"`
	// Model and Layers are what to hold; "" leaves the choice to the tracker.
	Model  string `json:"model"`
	Layers string `json:"layers"`

	Rules    Rules    `json:"rules"`
	Schedule Schedule `json:"schedule"`
	Limits   Limits   `json:"limits"`
	// Proxy is the address of a web proxy, "" for the system's own.
	Proxy string `json:"proxy"`
	// Snapshots allows beginnings of prompts to be kept on disk as state.
	Snapshots bool `json:"snapshots"`
	// Updates say how newer versions of Neuron are looked for.
	Updates Updates `json:"updates"`
}

// Updates is about newer versions of Neuron. None is ever installed by itself.
type Updates struct {
	Check   bool   `json:"check"`   // read the list of releases once a day
	Feed    string `json:"feed"`    // its https address, "" for the build's own
	Channel string `json:"channel"` // "stable", or another one for those who try releases
}

// Pause is a pause by the user. The zero value is none.
type Pause struct {
	// UntilResumed has no end, Until has one.
	UntilResumed bool      `json:"until_resumed"`
	Until        time.Time `json:"until,omitzero"`
}

// Rules say when not to share.
type Rules struct {
	OnlyIdle    bool `json:"only_idle"`    // share only when the user is away
	IdleMinutes int  `json:"idle_minutes"` // away is no input for so long, 1 to 120
	OnBattery   bool `json:"on_battery"`   // share on battery too
	OnMetered   bool `json:"on_metered"`   // share on metered connections too
	FullScreen  bool `json:"full_screen"`  // pause while a program fills the screen
	// BusyPercent of all processors that other programs may use before sharing
	// pauses, 5 to 100; 0: never for that.
	BusyPercent int `json:"busy_percent"`
	// Apps are names of programs that pause sharing while they run, at most 50.
	Apps []string `json:"apps"`
}

// Schedule are the hours in which this computer may share, in local time.
type Schedule struct {
	On bool `json:"on"`
	// Hours has a bit per hour (bit 0: midnight to one), Monday first.
	Hours [7]uint32 `json:"hours"`
}

// Limits are the most that sharing may take. 0 is no limit of the user's.
type Limits struct {
	Threads int `json:"threads"` // of the stage
	// GPUs are names of devices that may be used; empty: the processor alone.
	GPUs        []string `json:"gpus"`
	MemoryBytes int64    `json:"memory_bytes"`
	DiskBytes   int64    `json:"disk_bytes"`
	KeepFree    int64    `json:"keep_free"` // bytes of the disk that stay free
	UpRate      int64    `json:"up_rate"`   // bytes per second
	DownRate    int64    `json:"down_rate"` // bytes per second
	DayBytes    int64    `json:"day_bytes"` // both directions, per local day
	Sessions    int      `json:"sessions"`  // at a time, at most 64
}

// Defaults are what a new user gets: nothing is shared before he says so, and
// then never on battery, on metered connections, in games, or against other
// programs.
func Defaults() Settings {
	return Settings{
		Form:     Form,
		Rules:    Rules{IdleMinutes: 3, FullScreen: true, BusyPercent: 25, Apps: []string{}},
		Schedule: Schedule{Hours: [7]uint32{allDay, allDay, allDay, allDay, allDay, allDay, allDay}},
		Limits:   Limits{GPUs: []string{}, KeepFree: 5e9, UpRate: 2e6},
		Updates:  Updates{Check: true, Channel: "stable"},
	}
}

// allDay has a bit for each of the 24 hours.
const allDay = 1<<24 - 1
