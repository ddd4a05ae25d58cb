package accounts

import (
	"encoding/csv"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

var (
	statementColumns = []string{"time", "kind", "book", "micros", "credits", "session", "model", "model_name", "hop", "node", "first_layer", "end_layer",
		"prefill_rows", "decode_rows", "transaction", "note"}
	earningColumns = []string{"day", "model", "model_name", "first_layer", "end_layer", "micros", "credits", "prefill_rows", "decode_rows"}
)

func number(n int64) string { return strconv.FormatInt(n, 10) }

// layers are two cells: a spreadsheet would read "1-4" as a day.
func layers(r *protocol.Range) (first, end string) {
	if r == nil {
		return "", ""
	}
	return strconv.Itoa(r.First), strconv.Itoa(r.Last)
}

func (l *lineView) cells() []string {
	first, end := layers(l.Range)
	hop := ""
	if l.Hop != nil {
		hop = strconv.Itoa(*l.Hop)
	}
	return []string{
		l.At.UTC().Format(time.RFC3339Nano), text(string(l.Kind)), l.Book, number(int64(l.Amount.Micros)), l.Amount.Credits, text(string(l.Session)),
		text(string(l.Model)), text(l.ModelName), hop, text(string(l.Node)), first, end, number(l.Prefill), number(l.Decode), text(l.Transaction), text(l.Note),
	}
}

func (e *earningView) cells() []string {
	first, end := layers(e.Range)
	return []string{e.Day, text(string(e.Model)), text(e.ModelName), first, end, number(int64(e.Amount.Micros)), e.Amount.Credits, number(e.Prefill), number(e.Decode)}
}

// text makes a cell that others may have written harmless: spreadsheets run
// what begins like a formula, also after blanks, some read the wide forms of the
// signs too, and some take a semicolon for the end of a cell. A quote in front
// makes it text. Control characters become blanks.
func text(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, string(utf8.RuneError)))
	parts := strings.Split(s, ";")
	for i, p := range parts {
		if r, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(p, func(r rune) bool { return unicode.IsSpace(r) || r == '"' })); strings.ContainsRune("=+-@＝＋－＠", r) {
			parts[i] = "'" + p
		}
	}
	return strings.Join(parts, ";")
}

// table writes CSV as RFC 4180 has it: lines end with CR LF, and cells are
// quoted where they need it.
type table struct {
	w   *csv.Writer
	err error
}

func startCSV(w http.ResponseWriter, name string, columns []string) *table {
	w.Header().Set("Content-Type", "text/csv; charset=utf-8; header=present")
	w.Header().Set("Content-Disposition", `attachment; filename="neuron-`+name+`.csv"`)
	t := &table{w: csv.NewWriter(w)}
	t.w.UseCRLF = true
	t.row(columns)
	return t
}

func (t *table) row(cells []string) {
	if t.err == nil {
		t.err = t.w.Write(cells)
	}
}

// end flushes what has been written. The status has gone out: an answer that
// cannot be whole breaks its connection, and does not look complete.
func (t *table) end() error {
	if t.w.Flush(); t.err != nil || t.w.Error() != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// exports bounds the statements that are being written whole: one of an account
// and maxExports in all.
type exports struct {
	mu      sync.Mutex
	running map[store.AccountID]bool
}

const maxExports = 16

func (e *exports) begin(id store.AccountID) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running[id] {
		return protocol.Errorf(protocol.CodeRateLimited, "a statement of this account is being written; wait until it has ended")
	}
	if len(e.running) >= maxExports {
		return protocol.Errorf(protocol.CodeUnavailable, "too many statements are being written; try again in a moment")
	}
	if e.running == nil {
		e.running = make(map[store.AccountID]bool)
	}
	e.running[id] = true
	return nil
}

func (e *exports) end(id store.AccountID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.running, id)
}

// export writes a whole statement, page by page. A reader that takes no page
// for answerTime loses its connection.
func (h *Handler) export(w http.ResponseWriter, r *http.Request, q *query) error {
	if err := h.exports.begin(q.Account); err != nil {
		return err
	}
	defer h.exports.end(q.Account)
	// The first page decides whether there is an error to answer with.
	page, err := h.page(r.Context(), q, q.cursor, maxPageLines)
	if err != nil {
		return err
	}
	deadline := http.NewResponseController(w)
	t := startCSV(w, "statement", statementColumns)
	for {
		_ = deadline.SetWriteDeadline(time.Now().Add(answerTime))
		for i := range page.Items {
			v := h.lineView(&page.Items[i])
			t.row(v.cells())
		}
		if t.w.Flush(); page.Next == "" || t.w.Error() != nil {
			return t.end()
		}
		if page, err = h.page(r.Context(), q, page.Next, maxPageLines); err != nil {
			if r.Context().Err() == nil {
				h.o.Logger.Error("a statement ends early", "err", err)
			}
			panic(http.ErrAbortHandler)
		}
	}
}
