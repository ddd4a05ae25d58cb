package store

import (
	"crypto/sha256"
	"time"
)

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
