package protocol

// SharingState is what a node does with the work of others, as tray, window,
// command line and tracker show it.
type SharingState string

// The states.
const (
	SharingOn      SharingState = "sharing" // takes work when some comes
	SharingLeaving SharingState = "leaving" // finishes running sessions, takes no new ones
	SharingPaused  SharingState = "paused"  // will go on by itself, or when the user says so
	SharingOff     SharingState = "off"     // the user does not share
)

// SharingReason says why a node does not share: one list for tray, window,
// command line and tracker. Append-only; "" while it shares.
type SharingReason string

// The reasons, strongest first: when several hold, the first one is told.
const (
	SharingUserOff     SharingReason = "user_off"        // turned off by the user
	SharingNotSetUp    SharingReason = "not_set_up"      // the first-run questions are not answered
	SharingUserPause   SharingReason = "user_pause"      // paused by the user, with an end or until resumed
	SharingStopping    SharingReason = "stopping"        // the engine is ending in order
	SharingFailed      SharingReason = "failed"          // something broke; the health entries say what
	SharingNoTracker   SharingReason = "no_tracker"      // no tracker is set, or it does not answer
	SharingOperator    SharingReason = "operator"        // the network's operator does not use this node
	SharingSchedule    SharingReason = "schedule"        // outside the hours that the user has chosen
	SharingBattery     SharingReason = "on_battery"      // runs on battery
	SharingMetered     SharingReason = "metered_network" // the connection is paid by volume
	SharingQuota       SharingReason = "transfer_quota"  // today's transfer is used up
	SharingFullScreen  SharingReason = "full_screen"     // a game or film fills the screen
	SharingApp         SharingReason = "chosen_program"  // a program of the user's list runs
	SharingUserActive  SharingReason = "user_active"     // shares only when the user is away
	SharingIdleUnknown SharingReason = "idle_unknown"    // the same, and this system does not tell
	SharingOtherWork   SharingReason = "other_programs"  // other programs need the processor
	SharingHostBusy    SharingReason = "host_busy"       // sessions would be slower than promised
	SharingMemory      SharingReason = "memory_low"      // other programs need the memory
	SharingDisk        SharingReason = "disk_full"       // no room for the layers
	SharingNoModel     SharingReason = "no_model"        // there is nothing to hold yet
	SharingStarting    SharingReason = "starting"        // layers are fetched, checked or loaded
)

// SharingReasons lists all reasons in order of strength.
func SharingReasons() []SharingReason {
	return []SharingReason{
		SharingUserOff, SharingNotSetUp, SharingUserPause, SharingStopping, SharingFailed, SharingNoTracker, SharingOperator,
		SharingSchedule, SharingBattery, SharingMetered, SharingQuota, SharingFullScreen, SharingApp, SharingUserActive,
		SharingIdleUnknown, SharingOtherWork, SharingHostBusy, SharingMemory, SharingDisk, SharingNoModel, SharingStarting,
	}
}

var sharingSentences = map[SharingReason]string{
	"":                 "Sharing this computer.",
	SharingUserOff:     "Sharing is turned off.",
	SharingNotSetUp:    "Neuron is not set up yet.",
	SharingUserPause:   "Paused by you.",
	SharingStopping:    "Neuron is stopping.",
	SharingFailed:      "Something is broken and needs a look.",
	SharingNoTracker:   "The network cannot be reached.",
	SharingOperator:    "The network does not use this computer.",
	SharingSchedule:    "Paused: outside the hours that you chose.",
	SharingBattery:     "Paused: running on battery.",
	SharingMetered:     "Paused: the connection is metered.",
	SharingQuota:       "Paused: today's transfer limit is reached.",
	SharingFullScreen:  "Paused: a program fills the screen.",
	SharingApp:         "Paused: a program from your list is running.",
	SharingUserActive:  "Paused: you are using this computer.",
	SharingIdleUnknown: "Paused: this system does not tell whether you are away.",
	SharingOtherWork:   "Paused: other programs need the processor.",
	SharingHostBusy:    "Paused: this computer is too busy to answer in time.",
	SharingMemory:      "Paused: other programs need the memory.",
	SharingDisk:        "Paused: the disk is full.",
	SharingNoModel:     "Waiting for something to do.",
	SharingStarting:    "Getting ready.",
}

// Sentence says it in English, for people. An unknown reason is told as it is.
func (r SharingReason) Sentence() string {
	if s, ok := sharingSentences[r]; ok {
		return s
	}
	return "Paused: " + string(r) + "."
}
