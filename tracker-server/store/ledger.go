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
	// OwnerOf is that of a view, for the one question that each lease has.
	OwnerOf(ctx context.Context, n protocol.NodeID) (NodeOwner, error)
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
