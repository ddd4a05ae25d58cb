// Package swarm distributes model files by BitTorrent. The library runs in a
// child process of the engine (neuron-engine swarm, package worker), since a
// fault of it must not take the engine down; Host starts it, tells it what is
// wanted, and keeps what it last said.
//
// Wanted is a whole description, not a command: the child converges to the
// newest one, and gets it again after a restart. Messages are JSON lines,
// Wanted down its standard input, Status up its standard output; the child
// exits when its input ends.
//
// The engine's composition (engine/program) imports it. It knows manifests and
// shard folders, and neither libllama nor sessions nor the tracker's channel.
package swarm

import (
	"time"

	"neuron/engine/protocol"
)

// Wanted is all that the child should do.
type Wanted struct {
	// Version grows with each change; Status.Version repeats it.
	Version int64 `json:"version"`
	// Listen is host:port for peers; port 0 takes a free one. It is read once,
	// when the child starts.
	Listen string `json:"listen"`
	// Paused stops all transfer; nothing is dropped.
	Paused bool    `json:"paused"`
	Limits Limits  `json:"limits"`
	Models []Model `json:"models"`
}

// Limits bound what the swarm takes; 0 is no limit.
type Limits struct {
	UpBytes   int64 `json:"up_bytes"`   // per second
	DownBytes int64 `json:"down_bytes"` // per second
	Peers     int   `json:"peers"`      // connections per model; 0: 40
	// DiskBytes is the most that all shard folders may hold. Layers that are
	// not wanted are kept within it, the least recently served goes first.
	DiskBytes int64 `json:"disk_bytes"`
	// KeepFree is free space that downloads leave on the disk.
	KeepFree int64 `json:"keep_free"`
}

// Model is one model in Wanted.
type Model struct {
	Model protocol.ModelID `json:"model"`
	// Dir is the shard folder. It holds manifest.json and model.torrent, which
	// the engine has checked and put there.
	Dir string `json:"dir"`
	// Ranges are the layers to hold; none for the stem's metadata alone.
	Ranges []protocol.Range `json:"ranges"`
	// Adopted are the publisher's files where they lie on this computer, in
	// order; the model is then seeded from them and nothing is fetched.
	Adopted []string `json:"adopted,omitempty"`
	// Announce are tracker URLs (http or https), Peers addresses known
	// otherwise (IP:port; names are refused, since nothing could ban them).
	Announce []string `json:"announce,omitempty"`
	Peers    []string `json:"peers,omitempty"`
	// Damaged names files of Dir whose content failed verification; the child
	// repairs each once per number, so that an order repeats only when the
	// number grows.
	Damaged []Damaged `json:"damaged,omitempty"`
}

// Damaged orders a repair of one file of the shard folder.
type Damaged struct {
	File   string `json:"file"`
	Number int    `json:"number"`
}

// Status is what the child says: on every change of a state, and each second
// while something moves.
type Status struct {
	// Version is that of the newest Wanted which all of this reflects: a model
	// that is complete has all that this Wanted asks for.
	Version int64     `json:"version"`
	Time    time.Time `json:"time"`
	// Error says why nothing works at all: the child cannot listen
	// (port_in_use), or none is running (swarm_lost; the Host sets it).
	Error  *protocol.Error `json:"error,omitempty"`
	Addr   string          `json:"addr"` // where peers can dial; "" before it listens
	Models []ModelStatus   `json:"models"`
}

// State is what the child does for a model.
type State string

// The states.
const (
	StateStarting    State = "starting"    // opening the folder, checking adopted files
	StateDownloading State = "downloading" // pieces are missing
	StateComplete    State = "complete"    // has what is wanted, and seeds
	StatePaused      State = "paused"
	StateBlocked     State = "blocked" // cannot go on, see Error; tries again by itself
	StateFailed      State = "failed"  // cannot go on until Wanted changes, see Error
)

// ModelStatus is the state of one model. Bytes count payload of pieces.
type ModelStatus struct {
	Model protocol.ModelID `json:"model"`
	State State            `json:"state"`
	// Error says what is in the way: disk_full, data_folder, model_invalid.
	Error *protocol.Error `json:"error,omitempty"`
	// Files are those of the shard folder that are wanted.
	Files []FileStatus `json:"files"`
	// Bytes and Done are what is wanted and what of it is there, in whole
	// pieces; Missing counts pieces.
	Bytes   int64 `json:"bytes"`
	Done    int64 `json:"done"`
	Missing int   `json:"missing"`
	// Received and Sent count payload bytes since the child began; Wasted is
	// the part of Received that was of no use (twice, or failed the hash).
	Received int64 `json:"received"`
	Sent     int64 `json:"sent"`
	Wasted   int64 `json:"wasted"`
	// DownRate and UpRate are bytes per second over the last five seconds.
	DownRate int64 `json:"down_rate"`
	UpRate   int64 `json:"up_rate"`
	Peers    int   `json:"peers"`
	Seeds    int   `json:"seeds"`
	// Dropped counts peers and web seeds that were dropped for wrong data.
	Dropped int `json:"dropped"`
	// ETASeconds is how long the rest takes at DownRate; -1 when unknown.
	ETASeconds int64 `json:"eta_seconds"`
	// RepairNumber repeats the highest Damaged.Number that was carried out.
	RepairNumber int `json:"repair_number,omitempty"`
}

// FileStatus is one file of a shard folder.
type FileStatus struct {
	Name  string `json:"name"`
	Layer int    `json:"layer"` // -1: belongs to no layer
	Bytes int64  `json:"bytes"`
	Done  int64  `json:"done"` // in whole pieces of it
}
