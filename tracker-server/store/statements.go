package store

import (
	"crypto/sha256"
	"time"

	"neuron/engine/protocol"
)

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
