package store

import (
	"time"

	"neuron/engine/protocol"
)

// Prices is one version of the published price table. Amounts are for 1 MiB
// (2^20 bytes) of quantised weights.
type Prices struct {
	Version int64     `json:"version"`
	From    time.Time `json:"from"`
	// DecodeMiB is for one decoded position.
	DecodeMiB Credit `json:"decode_per_mib"`
	// PrefillPPM is the part of the decode price that a prefilled position
	// costs, in millionths.
	PrefillPPM int64 `json:"prefill_ppm"`
	// SeedMiB is for 1 MiB of a model's files that a granted receiver got.
	SeedMiB Credit `json:"seed_per_mib"`
	// FeePPM is the house's part of what a client pays, in millionths.
	FeePPM int64 `json:"fee_ppm"`
}

// ReservationState is the state of a session's money. The numbers are stored.
type ReservationState int

// The states.
const (
	ReservationOpen   ReservationState = 1 // the session runs
	ReservationDone   ReservationState = 2 // it ended well; receipts may still come
	ReservationClosed ReservationState = 3 // the rest went back
	ReservationFailed ReservationState = 4 // it failed; everything went back
)

// Reservation is what was set aside for a session.
type Reservation struct {
	// Num is the number of the reserving transaction.
	Num     int64
	Session protocol.SessionID
	Account AccountID
	Key     string // id of the API key, or ""
	Model   protocol.ModelID
	Prices  int64 // version
	// Prefill and Decode are the rows that may be paid on each hop.
	Prefill, Decode int64
	Amount          Credit
	Issued, Expires time.Time
	State           ReservationState
	Ended           time.Time
	// ToldPrefill and ToldDecode are the rows that the end of the session
	// named, -1 when it named none.
	ToldPrefill, ToldDecode int64
	// Due is when the reservation has to be looked at, zero for never.
	Due  time.Time
	Hops []ReservedHop
}

// ReservedHop is one hop's part.
type ReservedHop struct {
	Node protocol.NodeID
	// Owner is "" for a node that nobody owns: its work costs nothing.
	Owner AccountID
	Range protocol.Range
	Bytes int64 // quantised weights of the range
	// What one row costs, and how much of it is the house's.
	DecodeRow, DecodeFee, PrefillRow, PrefillFee Credit
	// Rows paid up to now.
	Prefill, Decode int64
}

// Span is a receipt that was posted.
type Span struct {
	Session     int64 // the reservation's number
	Hop         int
	Epoch       int64
	First, Last int64
	Seq         int64 // of the transaction
}

// ReservationView reads reservations.
type ReservationView interface {
	Reservation(s protocol.SessionID) (Reservation, error)
	// Due lists the sessions whose Due is at or before now, oldest first.
	Due(now time.Time, limit int) ([]protocol.SessionID, error)
	// Running lists the reservations in ReservationOpen and ReservationDone.
	Running() ([]Reservation, error)
	// Overlap finds a posted span of the same session, hop and epoch that has a
	// position in common with s.
	Overlap(s Span) (Span, bool, error)
}

// ReservationTx writes reservations.
type ReservationTx interface {
	AddReservation(r *Reservation) error
	// SetReservation stores State, Ended, ToldPrefill, ToldDecode and Due.
	SetReservation(r *Reservation) error
	// SetPaid stores the paid rows of one hop.
	SetPaid(r *Reservation, hop int) error
	AddSpan(s Span) error
}
