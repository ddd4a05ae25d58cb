package protocol

// MsgPlace asks the tracker which layers to hold, and carries its answer
// (Placement). It belongs to the list in control.go.
const MsgPlace MessageKind = "place"

// PlaceRequest asks what a node should hold. The tracker's answer is an
// assignment that the node may refuse by asking again with Refused.
type PlaceRequest struct {
	Offer Offer `json:"offer"`
	// Model and Range are what the user wants; both are empty where the
	// tracker may choose. Model is a ModelID or a name of the catalog.
	Model string `json:"model,omitempty"`
	Range *Range `json:"range,omitempty"`
	// Held are layers that lie on this node's disk already.
	Held []HeldLayers `json:"held,omitempty"`
	// Refused are assignments that this node has turned down, with the reason.
	Refused []PlaceRefusal `json:"refused,omitempty"`
}

// Offer is what a node can give. All are bytes but Speed and MaxSessions.
type Offer struct {
	Disk   int64 `json:"disk"`   // for layers, those that are held included
	Memory int64 `json:"memory"` // for weights, KV state and compute buffers
	// DownRate is the bandwidth for fetching, per second; 0 is not known.
	DownRate int64 `json:"down_rate,omitempty"`
	// Speed is how many bytes of weights per second one decode step reads, as
	// measured by a stage or estimated; 0 is not known.
	Speed int64 `json:"speed,omitempty"`
}

// HeldLayers are layers of one model on disk.
type HeldLayers struct {
	Model  ModelID `json:"model"`
	Ranges []Range `json:"ranges"`
}

// PlaceRefusal is an assignment that a node did not accept.
type PlaceRefusal struct {
	Model ModelID `json:"model"`
	Range Range   `json:"range"`
	Error *Error  `json:"error"`
}

// Placement is what the tracker wants the node to hold.
type Placement struct {
	Model ModelID `json:"model"`
	Name  string  `json:"name"`
	Range Range   `json:"range"`
	// Reason is a sentence for people: why this range.
	Reason string `json:"reason"`
}
