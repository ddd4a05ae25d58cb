package ledger

import (
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// Freeze is one proven fault that holds an owner's unsettled credit, or did.
type Freeze struct {
	Proof string // the name of the slash proof
	At    time.Time
	Note  string
	// Ended is "" while it holds, else store.TxThaw or store.TxForfeit.
	Ended store.TxKind
}

// maxFreezes bounds a list of them.
const maxFreezes = 1000

// Freezes lists the freezes of an owner, the oldest first, at most 1000.
func Freezes(v store.LedgerView, owner store.AccountID) ([]Freeze, error) {
	list, err := v.Freezes(owner, maxFreezes)
	if err != nil {
		return nil, err
	}
	out := make([]Freeze, 0, len(list))
	for i := range list {
		rest := strings.TrimPrefix(list[i].ID, string(store.TxFreeze)+":")
		f := Freeze{Proof: strings.TrimPrefix(rest, string(owner)+":"), At: list[i].At, Note: list[i].Note}
		for _, k := range []store.TxKind{store.TxThaw, store.TxForfeit} {
			switch _, err := v.Transaction(string(k) + ":" + rest); {
			case err == nil:
				f.Ended = k
			case !isCode(err, protocol.CodeNotFound):
				return nil, err
			}
		}
		out = append(out, f)
	}
	return out, nil
}
