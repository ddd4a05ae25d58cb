package operator

import (
	"context"
	"fmt"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
)

// AccountRow is an account with its money, as amounts per book.
type AccountRow struct {
	ID       store.AccountID         `json:"id"`
	Kind     store.AccountKind       `json:"kind"`
	Name     string                  `json:"name"`
	Created  time.Time               `json:"created"`
	Closed   time.Time               `json:"closed,omitzero"`
	Faults   int64                   `json:"open_freezes"` // that hold its unsettled credit
	Banned   standing.Mark           `json:"banned"`
	Balances map[string]store.Credit `json:"balances"`
}

// Book is a book's amount for pages.
func (r *AccountRow) Book(name string) store.Credit { return r.Balances[name] }

func rowOf(v store.LedgerView, a *store.Account) (AccountRow, error) {
	r := AccountRow{ID: a.ID, Kind: a.Kind, Name: a.Name, Created: a.Created, Closed: a.Closed, Faults: a.Frozen, Balances: map[string]store.Credit{}}
	have, err := v.Balances(a.ID)
	for b, c := range have {
		r.Balances[b.String()] = c
	}
	return r, err
}

// AccountQuery selects accounts: Text is a part of a name or of an id.
type AccountQuery struct {
	Text  string          `json:"q"`
	After store.AccountID `json:"after"`
}

// AccountPage is a page of accounts by id.
type AccountPage struct {
	Accounts []AccountRow    `json:"accounts"`
	Next     store.AccountID `json:"next,omitempty"` // After of the following page
	Query    AccountQuery    `json:"-"`
}

// Accounts lists accounts.
func (a *Area) Accounts(ctx context.Context, q AccountQuery) (*AccountPage, error) {
	p := &AccountPage{Accounts: []AccountRow{}, Query: q}
	text := strings.ToLower(q.Text)
	err := a.cfg.Ledger.View(ctx, func(v store.LedgerView) error {
		for after := q.After; ; {
			list, err := v.Accounts(after, 500)
			if err != nil || len(list) == 0 {
				return err
			}
			for i := range list {
				if after = list[i].ID; text != "" && !strings.Contains(strings.ToLower(list[i].Name), text) && !strings.Contains(string(list[i].ID), text) {
					continue
				}
				if len(p.Accounts) == pageSize {
					p.Next = p.Accounts[pageSize-1].ID
					return nil
				}
				r, err := rowOf(v, &list[i])
				if err != nil {
					return err
				}
				r.Banned = a.cfg.Network.Standing(standing.Owner(string(r.ID))).Banned
				p.Accounts = append(p.Accounts, r)
			}
		}
	})
	return p, err
}

// account finds an account by its id, or by a beginning that only one has.
func (a *Area) account(ctx context.Context, short string) (out store.Account, err error) {
	err = a.cfg.Ledger.View(ctx, func(v store.LedgerView) error {
		out, err = v.Account(store.AccountID(short))
		if !isCode(err, protocol.CodeNotFound) {
			return err
		}
		all := map[store.AccountID]store.Account{}
		if len(short) >= minShort { // those that begin so stand right behind it
			list, err := v.Accounts(store.AccountID(short), 2)
			if err != nil {
				return err
			}
			for i := range list {
				all[list[i].ID] = list[i]
			}
		}
		id, err := pick(short, "account", all)
		out = all[id]
		return err
	})
	return out, err
}

func shortAccount(id store.AccountID) string { return string(id[:min(10, len(id))]) }

// KeyRow is an API key without its secret.
type KeyRow struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	Created   time.Time    `json:"created"`
	Revoked   time.Time    `json:"revoked,omitzero"`
	Budget    store.Credit `json:"budget"`
	BudgetDay store.Credit `json:"budget_day"`
	PerMinute int64        `json:"per_minute"`
	Today     store.Credit `json:"spent_today"`
	Spent     store.Credit `json:"spent"`
}

// FreezeRow is a proven fault that holds an owner's unsettled credit, or did.
type FreezeRow struct {
	Proof string       `json:"proof"`
	At    time.Time    `json:"at"`
	Note  string       `json:"note,omitempty"`
	Ended store.TxKind `json:"ended,omitempty"` // thaw or forfeit
}

// LineRow is one line of a statement.
type LineRow struct {
	ID      string             `json:"transaction"`
	Kind    store.TxKind       `json:"kind"`
	At      time.Time          `json:"at"`
	Book    string             `json:"book"`
	Amount  store.Credit       `json:"amount"`
	Note    string             `json:"note,omitempty"`
	Session protocol.SessionID `json:"session,omitempty"`
}

// Correctable reports whether the line's transaction is one that may be undone.
func (l *LineRow) Correctable() bool {
	switch l.Kind {
	case store.TxGrant, store.TxSeed, store.TxForfeit, store.TxPost:
		return true
	default:
		return false
	}
}

// AccountDetail is all about one account.
type AccountDetail struct {
	AccountRow
	Keys    []KeyRow          `json:"keys"`
	Freezes []FreezeRow       `json:"freezes"`
	Nodes   []protocol.NodeID `json:"nodes"`
	Lines   []LineRow         `json:"lines"`
	Next    string            `json:"next,omitempty"` // cursor of older lines
	Log     []store.LogEntry  `json:"log"`
	// Ref is a fresh name for a grant, so that a form that is sent twice grants once.
	Ref string `json:"-"`
}

// Account finds one, with the lines of its statement below a cursor.
func (a *Area) Account(ctx context.Context, short, cursor string) (*AccountDetail, error) {
	acc, err := a.account(ctx, short)
	if err != nil {
		return nil, err
	}
	d := &AccountDetail{Keys: []KeyRow{}, Freezes: []FreezeRow{}, Nodes: []protocol.NodeID{}, Lines: []LineRow{}, Ref: random()[:16]}
	err = a.cfg.Ledger.View(ctx, func(v store.LedgerView) error {
		if d.AccountRow, err = rowOf(v, &acc); err != nil {
			return err
		}
		list, err := v.Keys(acc.ID, 1000)
		if err != nil {
			return err
		}
		for i := range list {
			k := &list[i]
			today, spent, err := v.Spent(k.ID, a.cfg.Now())
			if err != nil {
				return err
			}
			d.Keys = append(d.Keys, KeyRow{
				ID: k.ID, Name: k.Name, Created: k.Created, Revoked: k.Revoked, Budget: k.Budget, BudgetDay: k.BudgetDay,
				PerMinute: k.PerMinute, Today: today, Spent: spent,
			})
		}
		freezes, err := ledger.Freezes(v, acc.ID)
		if err != nil {
			return err
		}
		for _, f := range freezes {
			d.Freezes = append(d.Freezes, FreezeRow(f))
		}
		nodes, err := v.NodesOf(acc.ID)
		for i := range nodes {
			d.Nodes = append(d.Nodes, nodes[i].Node)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	d.Banned = a.cfg.Network.Standing(standing.Owner(string(acc.ID))).Banned
	page, err := a.cfg.Ledger.Statement(ctx, store.LineQuery{Account: acc.ID}, cursor, pageSize)
	if err != nil {
		return nil, err
	}
	for i := range page.Items {
		l := &page.Items[i]
		d.Lines = append(d.Lines, LineRow{ID: l.ID, Kind: l.Kind, At: l.At, Book: l.Book.String(), Amount: l.Amount, Note: l.Note, Session: l.Sess})
	}
	d.Next = page.Next
	d.Log, err = a.cfg.Store.OperatorLog(ctx, string(acc.ID), 0, pageSize)
	return d, err
}

// AddAccountInput asks for a client's account.
type AddAccountInput struct {
	Name string `json:"name"`
}

// AddAccount makes an account for a client.
func (a *Area) AddAccount(ctx context.Context, by string, in AddAccountInput) (any, string, error) {
	if in.Name == "" {
		return nil, "", protocol.Errorf(protocol.CodeInvalidRequest, "an account needs a name")
	}
	var acc store.Account
	err := a.do(ctx, deed{by: by, action: "account add", detail: in.Name}, func() (err error) {
		acc, err = a.cfg.Ledger.AddClient(ctx, in.Name)
		return err
	})
	return map[string]any{"id": acc.ID, "name": acc.Name}, fmt.Sprintf("The account %s of %s is made.", acc.ID, acc.Name), err
}

// GrantInput asks for credit to be given. Ref names the grant: the same again is
// no second one.
type GrantInput struct {
	ID     string `path:"id"`
	Amount Amount `json:"amount"`
	Ref    string `json:"ref"`
	Note   string `json:"note"`
}

// Grant gives credit to an account.
func (a *Area) Grant(ctx context.Context, by string, in GrantInput) (any, string, error) {
	acc, err := a.account(ctx, in.ID)
	if err != nil {
		return nil, "", err
	}
	if in.Amount <= 0 || store.Credit(in.Amount) > ledger.MaxGrant {
		return nil, "", protocol.Errorf(protocol.CodeInvalidRequest, "a grant is more than 0, and at most %s credits", ledger.MaxGrant)
	}
	if in.Ref == "" {
		in.Ref = random()[:16]
	}
	d := deed{by: by, action: "grant", subject: string(acc.ID), reason: in.Note, detail: in.Amount.String() + " credits, reference " + in.Ref}
	err = a.do(ctx, d, func() error {
		return a.cfg.Ledger.Grant(ctx, acc.ID, in.Ref, store.Credit(in.Amount), in.Note)
	})
	return map[string]any{"id": acc.ID, "amount": in.Amount, "ref": in.Ref, "transaction": "grant:" + string(acc.ID) + ":" + in.Ref},
		fmt.Sprintf("%s credits are granted to %s.", in.Amount, shortAccount(acc.ID)), err
}

// AccountInput names an account, with a reason.
type AccountInput struct {
	ID     string `path:"id"`
	Reason string `json:"reason"`
}

// CloseAccount lets an account pay no more.
func (a *Area) CloseAccount(ctx context.Context, by string, in AccountInput) (any, string, error) {
	acc, err := a.account(ctx, in.ID)
	if err != nil {
		return nil, "", err
	}
	err = a.do(ctx, deed{by: by, action: "account close", subject: string(acc.ID), reason: in.Reason}, func() error {
		return a.cfg.Ledger.CloseAccount(ctx, acc.ID)
	})
	return map[string]any{"id": acc.ID}, fmt.Sprintf("The account %s is closed; what it has stays.", shortAccount(acc.ID)), err
}

// FaultInput asks for an owner's unsettled credit to be held, given back or
// taken, because of a proof, which is named by its hash.
type FaultInput struct {
	ID     string `path:"id"`
	Proof  string `json:"proof"`
	Reason string `json:"reason"`
}

// onFault decides on a proof that the tracker found itself: node and credit
// together.
type onFault func(ctx context.Context, proof protocol.Hash, note string) error

// fault makes one of the three operations: direct changes the credit alone, and
// known, where it is not nil, decides on a proof of this owner that the tracker
// found.
func (a *Area) fault(action, text string, direct func(context.Context, store.AccountID, string, string) error, known onFault) operation[FaultInput] {
	return func(ctx context.Context, by string, in FaultInput) (any, string, error) {
		acc, err := a.account(ctx, in.ID)
		if err != nil {
			return nil, "", err
		}
		if in.Proof == "" {
			return nil, "", protocol.Errorf(protocol.CodeInvalidRequest, "name the proof, by the hash of its file")
		}
		if len(in.Reason) > store.MaxNote {
			return nil, "", protocol.Errorf(protocol.CodeInvalidRequest, "a reason of %d bytes; at most %d are possible", len(in.Reason), store.MaxNote)
		}
		f := func() error { return direct(ctx, acc.ID, in.Proof, in.Reason) }
		var id protocol.Hash
		if known != nil && id.UnmarshalText([]byte(in.Proof)) == nil {
			switch p, err := a.cfg.Store.Proof(ctx, id); {
			case err == nil && p.Owner == acc.ID:
				f = func() error { return known(ctx, id, in.Reason) }
			case err != nil && !isCode(err, protocol.CodeNotFound):
				return nil, "", err
			}
		}
		err = a.do(ctx, deed{by: by, action: action, subject: string(acc.ID), reason: in.Reason, detail: "proof " + in.Proof}, f)
		return map[string]any{"id": acc.ID, "proof": in.Proof}, fmt.Sprintf(text, shortAccount(acc.ID)), err
	}
}

// ProofInput names a proof that the tracker found.
type ProofInput struct {
	ID     string `path:"id"`
	Reason string `json:"reason"`
}

// onProof makes an operation on a proof.
func (a *Area) onProof(action, text string, f onFault) operation[ProofInput] {
	return func(ctx context.Context, by string, in ProofInput) (any, string, error) {
		var id protocol.Hash
		if err := id.UnmarshalText([]byte(in.ID)); err != nil {
			return nil, "", err
		}
		p, err := a.cfg.Store.Proof(ctx, id)
		if err != nil {
			return nil, "", err
		}
		d := deed{by: by, action: "proof " + action, subject: string(p.Culprit), reason: in.Reason, detail: "proof " + id.String()}
		err = a.do(ctx, d, func() error { return f(ctx, id, in.Reason) })
		return map[string]any{"proof": id}, text, err
	}
}

// CorrectInput names a transaction that was a mistake.
type CorrectInput struct {
	Transaction string `json:"transaction"`
	Reason      string `json:"reason"`
}

// Correct undoes a transaction with one of its own.
func (a *Area) Correct(ctx context.Context, by string, in CorrectInput) (any, string, error) {
	if in.Transaction == "" || in.Reason == "" {
		return nil, "", protocol.Errorf(protocol.CodeInvalidRequest, "a correction needs a transaction and a reason")
	}
	err := a.do(ctx, deed{by: by, action: "correct", subject: in.Transaction, reason: in.Reason}, func() error {
		return a.cfg.Ledger.Correct(ctx, in.Transaction, in.Reason)
	})
	return map[string]any{"transaction": "correct:" + in.Transaction}, fmt.Sprintf("The transaction %s is undone.", in.Transaction), err
}
