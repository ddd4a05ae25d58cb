package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// Ledger is the part of a store that keeps money, API keys and who owns which
// node. It knows rows and sums, and no rules: those are in package ledger,
// which alone writes through it.
//
// Entries are appended and never change. Implementations fold the appended
// lines into the balances in the same transaction, and do so nowhere else.
type Ledger interface {
	// UpdateLedger runs f in one transaction that no other writer can overlap,
	// and commits it when f returns nil. What f did before it returned an error
	// is undone. f calls nothing but its argument, and may run on another
	// goroutine. It shares its transaction with others, and runs a second time
	// when one of them, or f itself, has failed: it gives the same answers then. Of several, each is in the ledger or not by
	// itself; the error is that of one that is not, or nil.
	UpdateLedger(ctx context.Context, fs ...func(LedgerTx) error) error
	// ViewLedger runs f on one consistent state.
	ViewLedger(ctx context.Context, f func(LedgerView) error) error
}

// LedgerView reads. Its methods may be called until f returns, by f's
// goroutine only. What is not there is not_found.
type LedgerView interface {
	MoneyView
	ReservationView
	KeyView
	OwnerView
}

// LedgerTx reads and writes; reads see the transaction's own writes.
type LedgerTx interface {
	LedgerView
	MoneyTx
	ReservationTx
	KeyTx
	OwnerTx
	ReceiptTx
}

// ReceiptTx stores receipts together with what they are paid.
type ReceiptTx interface {
	// AddReceipts is that of Receipts, in this transaction.
	AddReceipts(rs []Receipt, ps []Proof) error
}

// Credit is an amount of money in micro-credits: a million are one credit.
type Credit int64

// String writes credits with six decimals.
func (c Credit) String() string {
	sign, u := "", uint64(c)
	if c < 0 {
		sign, u = "-", -u
	}
	return fmt.Sprintf("%s%d.%06d", sign, u/1e6, u%1e6)
}

// AccountID names an account: "o-" and the hash of an owner's key, "c-" and
// random characters for a client, or House.
type AccountID string

// House is the operator's account. It is made with the schema.
const House AccountID = "house"

// AccountKind says who is behind an account.
type AccountKind string

// The kinds of accounts.
const (
	KindHouse  AccountKind = "house"
	KindOwner  AccountKind = "owner"
	KindClient AccountKind = "client"
)

// Account is who may have money. Times have microseconds, here and below.
type Account struct {
	ID   AccountID
	Kind AccountKind
	Name string
	// Key is an owner's Ed25519 public key.
	Key     []byte
	Created time.Time
	// Closed is zero for an account that may pay.
	Closed time.Time
	// Frozen counts the proven faults that hold the owner's unsettled credit.
	Frozen int64
}

// Book is a part of an account's balance. The numbers are stored.
type Book int

// The books.
const (
	Available Book = 1 // may be spent
	Reserved  Book = 2 // set aside for sessions that run
	Held      Book = 3 // for work in sessions that have not ended
	Pending   Book = 4 // earned, not settled
	Frozen    Book = 5 // earned, held back after a proven fault
	Mint      Book = 6 // the house's: minus what was given out
)

// Books lists them all.
var Books = []Book{Available, Reserved, Held, Pending, Frozen, Mint}

// String is the book's name in statements.
func (b Book) String() string {
	switch b {
	case Available:
		return "available"
	case Reserved:
		return "reserved"
	case Held:
		return "held"
	case Pending:
		return "pending"
	case Frozen:
		return "frozen"
	case Mint:
		return "mint"
	default:
		return fmt.Sprintf("book %d", int(b))
	}
}

// Balances is an account's money per book; books without an entry hold 0.
type Balances map[Book]Credit

// Line is one side of a transaction: Amount is a credit to the account when
// positive, a debit when negative.
type Line struct {
	Account AccountID
	Book    Book
	Amount  Credit
	// Hop is the hop of the session that earned the amount, -1 for none.
	Hop int
	// Prefill and Decode are the rows that the amount is for.
	Prefill, Decode int64
}

// TxKind says what a transaction is.
type TxKind string

// The kinds of transactions.
const (
	TxGrant   TxKind = "grant"   // credit given by the house
	TxReserve TxKind = "reserve" // set aside for a session
	TxPost    TxKind = "post"    // paid for a receipt
	TxEarn    TxKind = "earn"    // a session ended well: held becomes pending
	TxVoid    TxKind = "void"    // the rest of a reservation goes back
	TxSeed    TxKind = "seed"    // paid for bytes seeded
	TxSettle  TxKind = "settle"  // pending becomes available
	TxFreeze  TxKind = "freeze"  // pending becomes frozen
	TxThaw    TxKind = "thaw"    // frozen becomes pending again
	TxForfeit TxKind = "forfeit" // frozen goes to the house
	TxCorrect TxKind = "correct" // undoes an earlier transaction
)

// Transaction is one entry of the ledger. The amounts of its lines add up to 0.
type Transaction struct {
	// Seq counts transactions from 1, in the order in which they became valid.
	Seq int64
	// ID says what the transaction is for; it exists once.
	ID   string
	Kind TxKind
	// At never goes back from one transaction to the next.
	At time.Time
	// Session is the reservation's number, 0 for none.
	Session int64
	// Digest is over what was asked for, so that a repetition is told from
	// something else under the same id.
	Digest [sha256.Size]byte
	Note   string
	Lines  []Line
}

// Add is c + d; false when it does not fit.
func (c Credit) Add(d Credit) (Credit, bool) {
	sum := c + d
	return sum, (sum > c) == (d > 0)
}

// Check holds the rules of a transaction by itself: it is well formed and adds
// up to 0. Implementations call it before they store. Error: internal.
func (t *Transaction) Check() error {
	if t.ID == "" || len(t.ID) > 300 || t.Kind == "" || len(t.Note) > MaxNote || len(t.Lines) > 4096 {
		return protocol.Errorf(protocol.CodeInternal, "the transaction %.300q is not well formed", t.ID)
	}
	var sum Credit
	for _, l := range t.Lines {
		ok := false
		if sum, ok = sum.Add(l.Amount); !ok || !slices.Contains(Books, l.Book) {
			return protocol.Errorf(protocol.CodeInternal, "the transaction %s moves %s on %s", t.ID, l.Amount, l.Book)
		}
	}
	if sum != 0 {
		return protocol.Errorf(protocol.CodeInternal, "the transaction %s adds up to %s instead of 0", t.ID, sum)
	}
	return nil
}

// Chain is the hash over all transactions up to t, whose predecessors have the
// hash before: SHA-256 over before and t in a fixed form (numbers as 8 bytes
// little-endian, texts with their length in front).
func (t *Transaction) Chain(before [sha256.Size]byte) (out [sha256.Size]byte) {
	b := append(make([]byte, 0, 512), before[:]...)
	number := func(v int64) { b = binary.LittleEndian.AppendUint64(b, uint64(v)) }
	text := func(s string) {
		number(int64(len(s)))
		b = append(b, s...)
	}
	number(t.Seq)
	text(t.ID)
	text(string(t.Kind))
	number(t.At.UnixMicro())
	number(t.Session)
	b = append(b, t.Digest[:]...)
	text(t.Note)
	number(int64(len(t.Lines)))
	for _, l := range t.Lines {
		text(string(l.Account))
		for _, v := range [...]int64{int64(l.Book), int64(l.Amount), int64(l.Hop), l.Prefill, l.Decode} {
			number(v)
		}
	}
	return sha256.Sum256(b)
}

// MaxNote bounds a transaction's note and the name of an account or key, in
// bytes.
const MaxNote = 500

// LineItem is one line of one account with what it is about.
type LineItem struct {
	Line
	Seq   int64
	N     int // place among the transaction's lines
	ID    string
	Kind  TxKind
	At    time.Time
	Note  string
	Sess  protocol.SessionID
	Model protocol.ModelID
	Range protocol.Range
	Node  protocol.NodeID
}

// LineQuery selects lines of one account. Zero values select all.
type LineQuery struct {
	Account AccountID
	Books   []Book
	Since   time.Time // included
	Until   time.Time // not included
	Model   protocol.ModelID
	Range   protocol.Range
}

// Earning is what one account earned with one range of one model on one day
// (UTC), corrections included.
type Earning struct {
	Day             time.Time
	Model           protocol.ModelID // "" for what no model earned
	Range           protocol.Range
	Amount          Credit
	Prefill, Decode int64
}

// MoneyView reads accounts, prices, entries and balances.
type MoneyView interface {
	Account(id AccountID) (Account, error)
	// Accounts lists accounts by id, above after.
	Accounts(after AccountID, limit int) ([]Account, error)
	Balances(id AccountID) (Balances, error)
	// Transaction finds one with its lines.
	Transaction(id string) (Transaction, error)
	// Freezes lists the transactions "freeze:ACCOUNT:...", the oldest first, at
	// most limit.
	Freezes(id AccountID, limit int) ([]Transaction, error)
	// Lines lists newest first, below line n of transaction seq when seq > 0.
	Lines(q LineQuery, seq int64, n, limit int) ([]LineItem, error)
	// Earnings adds up lines that entered or left the unsettled books by work,
	// newest day first; at most limit.
	Earnings(q LineQuery, limit int) ([]Earning, error)
	// GainedAfter adds up the credits to a book above transaction seq.
	GainedAfter(id AccountID, b Book, seq int64) (Credit, error)
	// SeqBefore is the last transaction before t, which is a full hour.
	SeqBefore(t time.Time) (int64, error)
	// Head is the newest transaction's number and time, and the hash of all.
	Head() (seq int64, at time.Time, chain [sha256.Size]byte, err error)
	// Unsettled lists the accounts with a balance other than 0 in Pending.
	Unsettled() ([]AccountID, error)
	// Prices lists all price tables by version.
	Prices() ([]Prices, error)
	// Fold adds up all lines anew, and Cached is the table of balances. Only
	// what is not 0 is listed.
	Fold() (map[AccountID]Balances, error)
	Cached() (map[AccountID]Balances, error)
	// Each calls f with every transaction in order.
	Each(f func(*Transaction) error) error
}

// MoneyTx writes entries.
type MoneyTx interface {
	AddAccount(a Account) error
	// SetAccount stores Name, Closed and Frozen of an account that exists.
	SetAccount(a Account) error
	AddPrices(p Prices) error
	// Append stores t with the next Seq, which it returns in t, and At not
	// before the newest transaction's, and adds its lines to the balances.
	// Error: internal when the sum is not 0; conflict when the id exists, which
	// may be found only after f has returned, which then runs again.
	Append(t *Transaction) error
	// Rebuild replaces the table of balances by Fold.
	Rebuild() error
}

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

// APIKey is what is kept of a key. The key itself is not.
type APIKey struct {
	// ID is the beginning of the key, which lists show.
	ID      string
	Hash    [sha256.Size]byte
	Account AccountID
	Name    string
	Created time.Time
	Revoked time.Time
	// Budget and BudgetDay bound what the key may spend in all and per day
	// (UTC); 0 is no bound.
	Budget, BudgetDay Credit
	// PerMinute bounds the requests in a minute; 0 is no bound.
	PerMinute int64
}

// KeyView reads API keys.
type KeyView interface {
	Key(id string) (APIKey, error)
	// Keys lists an account's keys by time of creation, at most limit.
	Keys(a AccountID, limit int) ([]APIKey, error)
	// Spent is what the key spent on that day, and in all.
	Spent(id string, day time.Time) (today, total Credit, err error)
	// SpentFold computes all totals from the reservations.
	SpentFold() (map[string]Credit, error)
}

// KeyTx writes API keys.
type KeyTx interface {
	// AddKey: conflict when the id exists.
	AddKey(k APIKey) error
	// SetKey stores Name, Revoked and the limits.
	SetKey(k APIKey) error
	// Spend adds to what the key spent; negative amounts take back.
	Spend(id string, day time.Time, amount Credit) error
}

// NodeOwner says who owns a node since when.
type NodeOwner struct {
	Node  protocol.NodeID
	Owner AccountID
	// Binding is what both keys signed, as JSON.
	Binding []byte
	At      time.Time // as signed
	Ended   time.Time // zero for the one that holds
}

// Pairing is a code that is open.
type Pairing struct {
	Hash    [sha256.Size]byte // of the code
	Owner   AccountID
	Expires time.Time
	// Node and Offer are set once a node has used the code: what it signed.
	Node  protocol.NodeID
	Offer []byte
	// Done is set when the owner has signed as well.
	Done bool
}

// OwnerView reads who owns what.
type OwnerView interface {
	// OwnerOf finds the binding that holds.
	OwnerOf(n protocol.NodeID) (NodeOwner, error)
	// OwnerHistory lists all bindings of a node, the newest first.
	OwnerHistory(n protocol.NodeID) ([]NodeOwner, error)
	// NodesOf lists what an owner owns now, by node id.
	NodesOf(a AccountID) ([]NodeOwner, error)
	Pairing(hash [sha256.Size]byte) (Pairing, error)
	// Pairings counts an owner's codes.
	Pairings(a AccountID) (int, error)
}

// OwnerTx writes who owns what.
type OwnerTx interface {
	AddNodeOwner(o NodeOwner) error
	// EndNodeOwner ends the binding that holds, if there is one.
	EndNodeOwner(n protocol.NodeID, at time.Time) error
	// PutPairing adds a code or replaces its row.
	PutPairing(p Pairing) error
	// ForgetPairings removes codes that expired before t.
	ForgetPairings(t time.Time) error
}
