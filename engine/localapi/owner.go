package localapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"neuron/engine/accounts"
	"neuron/engine/protocol"
	"neuron/internal/owner"
)

// Owner is what the API does for a person's ownership of nodes and credit. The
// engine's composition implements it; Client is the same from outside. Methods
// ask the tracker and may take seconds. Errors: those of engine/ownership,
// engine/wallet and engine/accounts; unavailable without a tracker.
type Owner interface {
	// Owner says who owns this computer's node, as the tracker has it now.
	Owner(ctx context.Context) (*OwnerState, error)
	// StartPairing gives a code for a further computer: the one that is open, or
	// another one if fresh says so.
	StartPairing(ctx context.Context, fresh bool) (*Pairing, error)
	// Pairing is the open code with what came for it; not_found without one.
	Pairing(ctx context.Context) (*Pairing, error)
	// ConfirmPairing makes the node that came the owner's; EndPairing forgets the
	// code.
	ConfirmPairing(ctx context.Context, node protocol.NodeID) error
	EndPairing(ctx context.Context) error
	// LookupCode says whose a code of another computer is. Join asks that owner to
	// take this computer's node; want is the owner that the person has seen, or "".
	LookupCode(ctx context.Context, code string) (owner.ID, error)
	Join(ctx context.Context, code string, want owner.ID) (owner.ID, error)
	// Leave brings this computer's node back to its own owner key.
	Leave(ctx context.Context) error
	// Release lets a node of the owner go; node may be the beginning of its id.
	Release(ctx context.Context, node string) (protocol.NodeID, error)
	// Export is the owner key, encrypted; Recover takes such a file.
	Export(ctx context.Context, passphrase string) ([]byte, error)
	Recover(ctx context.Context, r Recover) (*Recovered, error)

	// Account is what the owner of this computer's node has.
	Account(ctx context.Context) (*accounts.Account, error)
	Earnings(ctx context.Context, q accounts.Query) (*accounts.Earnings, error)
	Statement(ctx context.Context, q accounts.Query) (*accounts.Statement, error)
	// EarningsCSV and StatementCSV are the same as files.
	EarningsCSV(ctx context.Context, q accounts.Query) ([]byte, error)
	StatementCSV(ctx context.Context, q accounts.Query) ([]byte, error)
	Prices(ctx context.Context) (*accounts.Prices, error)
	// The API keys of this computer's owner key.
	Keys(ctx context.Context) ([]accounts.Key, error)
	CreateKey(ctx context.Context, name string, l accounts.Limits) (*accounts.NewKey, error)
	LimitKey(ctx context.Context, id string, l accounts.Limits) (*accounts.Key, error)
	RevokeKey(ctx context.Context, id string) (*accounts.Key, error)
}

// OwnerState is who owns this computer's node.
type OwnerState struct {
	Node protocol.NodeID `json:"node"`
	// Status is bound, waiting (for the owner's confirmation), released, failed
	// or unknown.
	Status string `json:"status"`
	// Own is the owner whose key is on this computer, "" without one. Wanted is
	// the one that the node should belong to, Tracker the one that the tracker has.
	Own     owner.ID        `json:"own,omitempty"`
	Wanted  owner.ID        `json:"wanted,omitempty"`
	Tracker owner.ID        `json:"tracker,omitempty"`
	Error   *protocol.Error `json:"error,omitempty"`
}

// Pairing is a code that this computer's owner has given out.
type Pairing struct {
	Code    string    `json:"code"`
	Expires time.Time `json:"expires"`
	// Offer is the node that came for it, nil while none has.
	Offer *Offer `json:"offer,omitempty"`
}

// Offer is a node that wants to belong to this computer's owner.
type Offer struct {
	Node protocol.NodeID `json:"node"`
	// Host says in words what computer it is, "" when the tracker does not know.
	Host string `json:"host,omitempty"`
}

// Recover is an order to take the owner key of an exported file.
type Recover struct {
	File       string `json:"file"` // the content
	Passphrase string `json:"passphrase"`
	// Replace another key, which is saved beside the new one.
	Replace bool `json:"replace"`
}

// Recovered says what came of it.
type Recovered struct {
	Owner owner.ID `json:"owner"`
	// Changed is false when the computer had this key already.
	Changed bool `json:"changed"`
	// Saved is the file with the key that was replaced, "" when there was none.
	Saved string `json:"saved,omitempty"`
}

// Bodies of requests and answers.
type (
	pairOrder struct {
		Fresh bool `json:"fresh"`
	}
	nodeOrder struct {
		Node string `json:"node"`
	}
	codeOrder struct {
		Code string `json:"code"`
	}
	ownerAnswer struct {
		Owner owner.ID `json:"owner"`
	}
	nodeAnswer struct {
		Node protocol.NodeID `json:"node"`
	}
	exportOrder struct {
		Passphrase string `json:"passphrase"`
	}
	exportAnswer struct {
		File string `json:"file"`
	}
	keysAnswer struct {
		Keys []accounts.Key `json:"keys"`
	}
	done      struct{}
	joinOrder struct {
		Code  string   `json:"code"`
		Owner owner.ID `json:"owner"`
	}
	keyOrder struct {
		Name   string          `json:"name"`
		Limits accounts.Limits `json:"limits"`
	}
)

// Paths of the owner's part of the API.
const (
	pathOwner     = "/local/v1/owner"
	pathPair      = pathOwner + "/pair"
	pathConfirm   = pathPair + "/confirm"
	pathLookup    = pathOwner + "/lookup"
	pathJoin      = pathOwner + "/join"
	pathLeave     = pathOwner + "/leave"
	pathRelease   = pathOwner + "/release"
	pathExport    = pathOwner + "/export"
	pathRecover   = pathOwner + "/recover"
	pathAccount   = "/local/v1/account"
	pathEarnings  = "/local/v1/earnings"
	pathStatement = "/local/v1/statement"
	pathPrices    = "/local/v1/prices"
	pathKeys      = "/local/v1/keys"
)

func (s *Server) ownerRoutes(mux *http.ServeMux) {
	o := s.o.Owner
	if o == nil {
		return
	}
	mux.HandleFunc("GET "+pathOwner, give(o.Owner))
	mux.HandleFunc("GET "+pathPair, give(o.Pairing))
	mux.HandleFunc("DELETE "+pathPair, give(func(ctx context.Context) (*done, error) { return &done{}, o.EndPairing(ctx) }))
	mux.HandleFunc("POST "+pathPair, question(func(ctx context.Context, in pairOrder) (*Pairing, error) { return o.StartPairing(ctx, in.Fresh) }))
	mux.HandleFunc("POST "+pathConfirm, question(func(ctx context.Context, in nodeOrder) (*done, error) {
		return &done{}, o.ConfirmPairing(ctx, protocol.NodeID(in.Node))
	}))
	mux.HandleFunc("POST "+pathLookup, question(func(ctx context.Context, in codeOrder) (ownerAnswer, error) {
		id, err := o.LookupCode(ctx, in.Code)
		return ownerAnswer{id}, err
	}))
	mux.HandleFunc("POST "+pathJoin, question(func(ctx context.Context, in joinOrder) (ownerAnswer, error) {
		id, err := o.Join(ctx, in.Code, in.Owner)
		return ownerAnswer{id}, err
	}))
	mux.HandleFunc("POST "+pathLeave, question(func(ctx context.Context, _ done) (*done, error) { return &done{}, o.Leave(ctx) }))
	mux.HandleFunc("POST "+pathRelease, question(func(ctx context.Context, in nodeOrder) (nodeAnswer, error) {
		id, err := o.Release(ctx, in.Node)
		return nodeAnswer{id}, err
	}))
	mux.HandleFunc("POST "+pathExport, question(func(ctx context.Context, in exportOrder) (exportAnswer, error) {
		file, err := o.Export(ctx, in.Passphrase)
		return exportAnswer{string(file)}, err
	}))
	mux.HandleFunc("POST "+pathRecover, question(o.Recover))
	mux.HandleFunc("GET "+pathAccount, give(o.Account))
	mux.HandleFunc("GET "+pathPrices, give(o.Prices))
	mux.HandleFunc("GET "+pathEarnings, list(o.Earnings, o.EarningsCSV))
	mux.HandleFunc("GET "+pathStatement, list(o.Statement, o.StatementCSV))
	mux.HandleFunc("GET "+pathKeys, give(func(ctx context.Context) (keysAnswer, error) {
		keys, err := o.Keys(ctx)
		return keysAnswer{keys}, err
	}))
	mux.HandleFunc("POST "+pathKeys, question(func(ctx context.Context, in keyOrder) (*accounts.NewKey, error) {
		return o.CreateKey(ctx, in.Name, in.Limits)
	}))
	mux.HandleFunc("POST "+pathKeys+"/{id}/limits", func(w http.ResponseWriter, r *http.Request) {
		question(func(ctx context.Context, l accounts.Limits) (*accounts.Key, error) {
			return o.LimitKey(ctx, r.PathValue("id"), l)
		})(w, r)
	})
	mux.HandleFunc("DELETE "+pathKeys+"/{id}", func(w http.ResponseWriter, r *http.Request) {
		give(func(ctx context.Context) (*accounts.Key, error) { return o.RevokeKey(ctx, r.PathValue("id")) })(w, r)
	})
}

// give answers with what f returns.
func give[T any](f func(context.Context) (T, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := f(r.Context())
		if err != nil {
			refuse(w, protocol.AsError(err))
			return
		}
		answer(w, v)
	}
}

// question is give for a request with a JSON body.
func question[In, Out any](f func(context.Context, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		if err := decodeOrder(r, &in); err != nil {
			refuse(w, protocol.AsError(err))
			return
		}
		give(func(ctx context.Context) (Out, error) { return f(ctx, in) })(w, r)
	}
}

// list answers with a part of the books, as JSON or, with format=csv, as a file.
func list[T any](f func(context.Context, accounts.Query) (T, error), file func(context.Context, accounts.Query) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := r.URL.Query()
		q := accounts.Query{
			Since: v.Get("since"), Until: v.Get("until"), Model: v.Get("model"), Range: v.Get("range"), Book: v.Get("book"), Cursor: v.Get("cursor"),
		}
		if s := v.Get("limit"); s != "" {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 {
				refuse(w, protocol.Errorf(protocol.CodeInvalidRequest, "limit is a number of lines"))
				return
			}
			q.Limit = n
		}
		if v.Get("format") != "csv" {
			give(func(ctx context.Context) (T, error) { return f(ctx, q) })(w, r)
			return
		}
		raw, err := file(r.Context(), q)
		if err != nil {
			refuse(w, protocol.AsError(err))
			return
		}
		w.Header().Set("Content-Type", "text/csv; charset=utf-8")
		w.Write(raw)
	}
}
