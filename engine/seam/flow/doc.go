// Package flow holds what a seam decides without any I/O: which rows may come
// next in a session (Position) and how much may be on its way without
// acknowledgement (Window). Only the seam imports it.
package flow

import "errors"

// MaxInFlight is the number of row frames without acknowledgement per stream.
const MaxInFlight = 4

// ErrEnded says that the stream ended while a frame waited for room.
var ErrEnded = errors.New("the stream has ended")
