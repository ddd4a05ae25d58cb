// Package protocol is Neuron's vocabulary: identifiers, states, stable codes,
// seam frames, leases and the messages of the control channel.
//
// It has no I/O, starts no goroutine and knows no transport: engine, tracker,
// window and tray may all import it, and it imports only the standard library.
// Everything here reaches a wire, a disk or a user, so values are written out,
// lists are append-only, and unknown values survive a round trip.
package protocol

// Version is the protocol generation spoken by this build. It is part of every
// path ("/seam/v1/...") and of the tracker's hello; a mismatch is a readable
// refusal, never a guess.
const Version = 1
