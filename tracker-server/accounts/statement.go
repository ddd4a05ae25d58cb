package accounts

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/store"
)

const (
	pageLines    = 100    // lines of a page when nobody says how many
	maxPageLines = 1000   // of one page
	maxEarnings  = 10_000 // rows of one answer
	maxReading   = 4      // statements that are read at one time
)

// query is what the parameters of a statement or of earnings select.
type query struct {
	store.LineQuery // without Account
	cursor          string
	limit           int // 0 when it is not given
	csv             bool
}

// parseQuery reads the parameters of r; names says which ones there are. Error:
// invalid_request with the parameter's name.
func parseQuery(raw, accept string, names ...string) (q query, err error) {
	values, err := url.ParseQuery(raw)
	if err != nil {
		return q, protocol.Errorf(protocol.CodeInvalidRequest, "the query is not well formed")
	}
	bad := func(name, what string) error {
		e := protocol.Errorf(protocol.CodeInvalidRequest, "%s is %s", name, what)
		e.Param = name
		return e
	}
	for name, list := range values {
		if !slices.Contains(names, name) {
			e := protocol.Errorf(protocol.CodeInvalidRequest, "there is no parameter %.40q; there are %s", name, strings.Join(names, ", "))
			e.Param = "query"
			return q, e
		}
		if len(list) > 1 {
			return q, bad(name, "given more than once")
		}
	}
	if v := values.Get("cursor"); v != "" {
		q.cursor = v // the ledger checks it
	}
	if v := values.Get("limit"); v != "" {
		if q.limit, err = strconv.Atoi(v); err != nil || q.limit < 1 || q.limit > maxPageLines {
			return q, bad("limit", "1 to "+strconv.Itoa(maxPageLines))
		}
	}
	if v := values.Get("book"); v != "" {
		for name := range strings.SplitSeq(v, ",") {
			b, ok := bookOf(name)
			if !ok || slices.Contains(q.Books, b) {
				return q, bad("book", "available, reserved, held, pending, frozen, or some of them with commas between")
			}
			q.Books = append(q.Books, b)
		}
	}
	for name, to := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if v := values.Get(name); v != "" {
			t, ok := timeOf(v)
			if !ok {
				return q, bad(name, "a day (2027-01-31, in UTC) or a time (2027-01-31T12:00:00Z)")
			}
			*to = t
		}
	}
	if v := values.Get("model"); v != "" {
		if q.Model, err = protocol.ParseModelID(v); err != nil {
			return q, bad("model", "a model's id, 64 hex digits")
		}
	}
	if v := values.Get("range"); v != "" {
		if q.Range, err = protocol.ParseRange(v); err != nil {
			return q, bad("range", "FIRST-LAST, with LAST not included")
		}
	}
	switch v := values.Get("format"); v {
	case "":
		q.csv = wantsCSV(accept)
	case "json", "csv":
		q.csv = v == "csv"
	default:
		return q, bad("format", "json or csv")
	}
	return q, nil
}

func bookOf(name string) (store.Book, bool) {
	for _, b := range store.Books {
		if b != store.Mint && b.String() == name {
			return b, true
		}
	}
	return 0, false
}

func timeOf(s string) (time.Time, bool) {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			t = t.UTC()
			return t, t.Year() >= 1970 && t.Year() < 10_000
		}
	}
	return time.Time{}, false
}

// wantsCSV reads an Accept header: the first type that is served wins.
func wantsCSV(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		switch t, _, _ := mime.ParseMediaType(part); t {
		case "text/csv":
			return true
		case "application/json", "*/*":
			return false
		}
	}
	return false
}

// lineView is one line of a statement.
type lineView struct {
	Transaction string             `json:"transaction"`
	Kind        store.TxKind       `json:"kind"`
	At          time.Time          `json:"at"`
	Book        string             `json:"book"`
	Amount      money              `json:"amount"`
	Note        string             `json:"note,omitempty"`
	Session     protocol.SessionID `json:"session,omitempty"`
	Model       protocol.ModelID   `json:"model,omitempty"`
	ModelName   string             `json:"model_name,omitempty"`
	// Of a line that is about a hop.
	Hop     *int            `json:"hop,omitempty"`
	Node    protocol.NodeID `json:"node,omitempty"`
	Range   *protocol.Range `json:"range,omitempty"`
	Prefill int64           `json:"prefill,omitempty"`
	Decode  int64           `json:"decode,omitempty"`
}

func (h *Handler) lineView(l *store.LineItem) lineView {
	v := lineView{
		Transaction: l.ID, Kind: l.Kind, At: l.At, Book: l.Book.String(), Amount: moneyOf(l.Amount), Note: l.Note,
		Session: l.Sess, Model: l.Model, Prefill: l.Prefill, Decode: l.Decode, Node: l.Node,
	}
	if l.Model != "" {
		v.ModelName = h.o.ModelName(l.Model)
	}
	if l.Hop >= 0 && l.Sess != "" {
		hop, r := l.Hop, l.Range
		v.Hop, v.Range = &hop, &r
	}
	return v
}

// read waits for a place to read lines. Errors: unavailable, cancelled.
func (h *Handler) read(ctx context.Context) (done func(), err error) {
	t := time.NewTimer(h.readWait)
	defer t.Stop()
	select {
	case h.reading <- struct{}{}:
		return func() { <-h.reading }, nil
	case <-ctx.Done():
		return nil, protocol.Errorf(protocol.CodeCancelled, "the client went away")
	case <-t.C:
		return nil, protocol.Errorf(protocol.CodeUnavailable, "too many statements are being read; try again in a moment")
	}
}

// page reads one page of a statement.
func (h *Handler) page(ctx context.Context, q *query, cursor string, limit int) (p ledger.Page, err error) {
	done, err := h.read(ctx)
	if err != nil {
		return p, err
	}
	defer done()
	return h.o.Ledger.Statement(ctx, q.LineQuery, cursor, limit)
}

// statement answers GET /v1/account/statement. As CSV without a limit it is
// whole; else it is a page.
func (h *Handler) statement(w http.ResponseWriter, r *http.Request) error {
	c, err := h.lineReader(w, r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r.URL.RawQuery, r.Header.Get("Accept"), "cursor", "limit", "book", "since", "until", "model", "range", "format")
	if err != nil {
		return err
	}
	q.Account = c.id
	if q.csv && q.limit == 0 {
		return h.export(w, r, &q)
	}
	if q.limit == 0 {
		q.limit = pageLines
	}
	page, err := h.page(r.Context(), &q, q.cursor, q.limit)
	if err != nil {
		return err
	}
	lines := make([]lineView, 0, len(page.Items))
	for i := range page.Items {
		lines = append(lines, h.lineView(&page.Items[i]))
	}
	if q.csv {
		if page.Next != "" {
			w.Header().Set("X-Neuron-Next", page.Next)
		}
		t := startCSV(w, "statement", statementColumns)
		for i := range lines {
			t.row(lines[i].cells())
		}
		return t.end()
	}
	writeJSON(w, http.StatusOK, struct {
		Account store.AccountID `json:"account"`
		Lines   []lineView      `json:"lines"`
		Next    string          `json:"next,omitempty"`
	}{c.id, lines, page.Next})
	return nil
}

// earningView is what one range of one model earned on one day.
type earningView struct {
	Day       string           `json:"day"` // UTC
	Model     protocol.ModelID `json:"model,omitempty"`
	ModelName string           `json:"model_name,omitempty"`
	Range     *protocol.Range  `json:"range,omitempty"`
	Amount    money            `json:"amount"`
	Prefill   int64            `json:"prefill"`
	Decode    int64            `json:"decode"`
}

// earnings answers GET /v1/account/earnings. An answer has whole days: when
// there is more, until of the next request says where it goes on.
func (h *Handler) earnings(w http.ResponseWriter, r *http.Request) error {
	c, err := h.lineReader(w, r)
	if err != nil {
		return err
	}
	q, err := parseQuery(r.URL.RawQuery, r.Header.Get("Accept"), "since", "until", "model", "range", "format")
	if err != nil {
		return err
	}
	q.Account = c.id
	done, err := h.read(r.Context())
	if err != nil {
		return err
	}
	list, err := h.o.Ledger.Earnings(r.Context(), q.LineQuery, maxEarnings)
	done()
	if err != nil {
		return err
	}
	list, next, err := wholeDays(list, maxEarnings)
	if err != nil {
		return err
	}
	out := make([]earningView, 0, len(list))
	for i := range list {
		e := &list[i]
		v := earningView{Day: e.Day.Format(time.DateOnly), Model: e.Model, Amount: moneyOf(e.Amount), Prefill: e.Prefill, Decode: e.Decode}
		if e.Model != "" {
			v.ModelName = h.o.ModelName(e.Model)
			rng := e.Range
			v.Range = &rng
		}
		out = append(out, v)
	}
	if q.csv {
		if next != "" {
			w.Header().Set("X-Neuron-Next-Until", next)
		}
		t := startCSV(w, "earnings", earningColumns)
		for i := range out {
			t.row(out[i].cells())
		}
		return t.end()
	}
	writeJSON(w, http.StatusOK, struct {
		Account   store.AccountID `json:"account"`
		Earnings  []earningView   `json:"earnings"`
		NextUntil string          `json:"next_until,omitempty"`
	}{c.id, out, next})
	return nil
}

// wholeDays cuts a list that has as many rows as were asked for, newest day
// first, to the days that are surely whole, and says until when the next one
// has to go.
func wholeDays(list []store.Earning, limit int) ([]store.Earning, string, error) {
	if len(list) < limit {
		return list, "", nil
	}
	last := list[len(list)-1].Day
	n := slices.IndexFunc(list, func(e store.Earning) bool { return e.Day.Equal(last) })
	if n == 0 {
		return nil, "", protocol.Errorf(protocol.CodeRequestTooLarge, "the day %s has more than %d rows; ask for one model", last.Format(time.DateOnly), limit)
	}
	return list[:n], last.AddDate(0, 0, 1).Format(time.DateOnly), nil
}
