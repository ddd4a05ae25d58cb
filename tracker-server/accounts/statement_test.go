package accounts

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/signed"
	"neuron/tracker-server/store"
)

// lines is a statement as the API answers.
type lines struct {
	Lines []lineView
	Next  string
}

// busy has owner 101 pay owner 102 for n sessions, one a minute.
func busy(t *testing.T, n int) *world {
	w := newWorld(t)
	w.bind(1, 101)
	w.bind(2, 102)
	for i := range n {
		w.pass(time.Minute)
		w.must(w.session(i, account(101), "", 2))
	}
	return w
}

func TestStatement(t *testing.T) {
	t.Parallel()
	w := busy(t, 30)
	var whole lines
	w.must(w.do(102, "GET", "/v1/account/statement?limit=1000", nil, &whole))
	// The starting credit; held, and held to pending.
	if len(whole.Lines) != 1+3*30 || whole.Next != "" {
		t.Fatalf("%d lines, next %q", len(whole.Lines), whole.Next)
	}
	if l := whole.Lines[0]; l.Book != "pending" || l.Amount != moneyOf(10_000) || l.Hop == nil || *l.Hop != 0 || l.Node != node(2) || l.Model != model ||
		l.ModelName != "=a model" || *l.Range != (protocol.Range{First: 0, Last: 4}) {
		t.Errorf("%+v", l)
	}
	// Pages fit together, also when entries come between.
	var got []lineView
	cursor, pages := "", 0
	for {
		var page lines
		w.must(w.do(102, "GET", "/v1/account/statement?limit=7&cursor="+cursor, nil, &page))
		got = append(got, page.Lines...)
		if pages++; pages == 3 {
			w.must(w.session(1000, account(101), "", 2))
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	a, _ := json.Marshal(whole.Lines)
	b, _ := json.Marshal(got)
	if string(a) != string(b) {
		t.Errorf("%d lines in pages, %d at once", len(got), len(whole.Lines))
	}
	count := func(i int, query string) int {
		t.Helper()
		var page lines
		w.must(w.do(i, "GET", "/v1/account/statement?limit=1000&"+query, nil, &page))
		return len(page.Lines)
	}
	for query, want := range map[string]int{
		"book=pending": 31, "book=pending,available": 32, "book=reserved": 0, "until=" + t0.Format(time.DateOnly): 0,
		"since=" + url.QueryEscape(t0.Add(10*time.Minute).Format(time.RFC3339)): 3 * 22,
		"model=" + string(model): 3 * 31, "model=" + strings.Repeat("00", 32): 0, "range=0-4": 3 * 31, "range=0-5": 0,
	} {
		if n := count(102, query); n != want {
			t.Errorf("%s: %d lines, want %d", query, n, want)
		}
	}
	if n := count(2, "book=pending"); n != 31 {
		t.Errorf("its node sees %d", n)
	}
	if n := count(101, "book=pending"); n != 0 {
		t.Errorf("another owner sees %d", n)
	}
	for _, query := range []string{
		"limit=0", "limit=1001", "limit=x", "book=mint", "book=gold", "book=held,held", "since=yesterday", "since=1969-12-31", "model=x", "range=4-0",
		"format=xml", "account=" + string(account(101)), "limit=1&limit=2", "cursor=x", "cursor=1-1%20", "since=2027-02-01&until=2027-01-01", "%zz=1", "a;b=1",
	} {
		w.pass(time.Second)
		w.code(w.do(102, "GET", "/v1/account/statement?"+query, nil, nil), protocol.CodeInvalidRequest)
	}
}

func TestEarnings(t *testing.T) {
	t.Parallel()
	w := busy(t, 3)
	w.pass(24 * time.Hour)
	w.must(w.session(100, account(101), "", 2))
	var out struct {
		Earnings  []earningView
		NextUntil string `json:"next_until"`
	}
	w.must(w.do(102, "GET", "/v1/account/earnings", nil, &out))
	if len(out.Earnings) != 2 || out.Earnings[0].Amount.Credits != "0.010000" || out.Earnings[1].Amount.Micros != 30_000 || out.Earnings[1].Decode != 30 ||
		out.Earnings[1].Day != t0.Format(time.DateOnly) || out.NextUntil != "" {
		t.Errorf("%+v", out)
	}
	w.must(w.do(102, "GET", "/v1/account/earnings?until="+t0.AddDate(0, 0, 1).Format(time.DateOnly), nil, &out))
	if len(out.Earnings) != 1 || out.Earnings[0].Amount.Micros != 30_000 {
		t.Errorf("%+v", out)
	}
	w.must(w.do(101, "GET", "/v1/account/earnings", nil, &out))
	if len(out.Earnings) != 0 {
		t.Errorf("%+v", out)
	}
	var raw []byte
	w.must(w.do(102, "GET", "/v1/account/earnings?format=csv", nil, &raw))
	want := "day,model,model_name,first_layer,end_layer,micros,credits,prefill_rows,decode_rows\r\n" +
		t0.AddDate(0, 0, 1).Format(time.DateOnly) + "," + string(model) + ",'=a model,0,4,10000,0.010000,0,10\r\n" +
		t0.Format(time.DateOnly) + "," + string(model) + ",'=a model,0,4,30000,0.030000,0,30\r\n"
	if string(raw) != want {
		t.Errorf("got\n%s\nwant\n%s", raw, want)
	}
}

func TestWholeDays(t *testing.T) {
	t.Parallel()
	day := func(n int) store.Earning { return store.Earning{Day: t0.AddDate(0, 0, n)} }
	list := []store.Earning{day(3), day(2), day(2), day(1)}
	if got, next, err := wholeDays(list, 5); len(got) != 4 || next != "" || err != nil {
		t.Errorf("%v %q %v", got, next, err)
	}
	if got, next, err := wholeDays(list, 4); len(got) != 3 || next != t0.AddDate(0, 0, 2).Format(time.DateOnly) || err != nil {
		t.Errorf("%v %q %v", got, next, err)
	}
	if got, next, err := wholeDays(list[:3], 3); len(got) != 1 || next != t0.AddDate(0, 0, 3).Format(time.DateOnly) || err != nil {
		t.Errorf("%v %q %v", got, next, err)
	}
	if _, _, err := wholeDays(list[1:3], 2); err == nil {
		t.Error("a day that does not fit")
	}
}

// TestCSV: a whole statement, over several pages, with notes that want to be
// formulas.
func TestCSV(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.bind(1, 101)
	notes := []string{"=HYPERLINK(\"http://x\")", "+1", " @SUM(1)", "-2", "plain, with \"quotes\"", "two\r\nlines", "ok;=1+1", "\t=1", "＝1", "é-1"}
	for i, n := range notes {
		w.must(w.l.Grant(ctx, account(101), "note"+string(rune('a'+i)), 1, n))
	}
	w.many(1100)
	var raw []byte
	w.must(w.do(101, "GET", "/v1/account/statement?format=csv", nil, &raw))
	if strings.Count(string(raw), "\n") != strings.Count(string(raw), "\r\n") {
		t.Error("a line ends without CR LF")
	}
	rows, err := csv.NewReader(strings.NewReader(string(raw))).ReadAll()
	w.must(err)
	if len(rows) != 1+1+len(notes)+1100 {
		t.Fatalf("%d rows", len(rows))
	}
	seen := map[string]bool{}
	for _, row := range rows[1:] {
		note := row[len(row)-1]
		seen[note] = true
		for _, cell := range row {
			if cell != "" && strings.ContainsAny(cell[:1], "=+@\t\r") {
				t.Errorf("a formula: %q", cell)
			}
		}
	}
	for _, want := range []string{`'=HYPERLINK("http://x")`, "'+1", "' @SUM(1)", "'-2", `plain, with "quotes"`, "two  lines", "ok;'=1+1", "' =1", "'＝1", "é-1"} {
		if !seen[want] {
			t.Errorf("no note %q", want)
		}
	}
	// By the Accept header; and a page with a limit says how to go on.
	secret, _, err := w.h.o.Keys.Create(ctx, clientOf(w), "k", keysLimits)
	w.must(err)
	bearer := []string{"Authorization", "Bearer " + secret.Reveal(), "Accept", "text/csv"}
	status, body, h := w.plain("GET", "/v1/account/statement?limit=2", "", bearer...)
	if status != 200 || !strings.HasPrefix(h.Get("Content-Type"), "text/csv") || strings.Count(body, "\r\n") != 3 || h.Get("X-Neuron-Next") == "" {
		t.Errorf("%d %v %s", status, h, body)
	}
	_, body, h = w.plain("GET", "/v1/account/statement?limit=2&cursor="+h.Get("X-Neuron-Next"), "", bearer...)
	if strings.Count(body, "\r\n") != 2 || h.Get("X-Neuron-Next") != "" {
		t.Errorf("%v %s", h, body)
	}
	// An error comes as an error, not as an empty file.
	status, body, h = w.plain("GET", "/v1/account/statement?cursor=nonsense", "", bearer...)
	if status != 400 || !strings.Contains(body, "invalid_request") || !strings.HasPrefix(h.Get("Content-Type"), "application/json") {
		t.Errorf("%d %v %s", status, h, body)
	}
	// One at a time, and room again after each.
	w.must(w.h.exports.begin(account(101)))
	w.code(w.do(101, "GET", "/v1/account/statement?format=csv", nil, nil), protocol.CodeRateLimited)
	for i := range maxExports - 1 {
		w.must(w.h.exports.begin(store.AccountID(rune('a' + i))))
	}
	w.code(w.h.exports.begin("more"), protocol.CodeUnavailable)
	w.h.exports.end(account(101))
	w.must(w.do(101, "GET", "/v1/account/statement?format=csv", nil, &raw))
	if len(w.h.exports.running) != maxExports-1 {
		t.Errorf("%d exports are left", len(w.h.exports.running))
	}
}

// many gives owner 101 so many lines.
func (w *world) many(n int) {
	w.t.Helper()
	var wg sync.WaitGroup // grants that come at one time share a transaction
	for k := range 50 {
		wg.Go(func() {
			for i := k; i < n; i += 50 {
				if err := w.l.Grant(context.Background(), account(101), "many"+strconv.Itoa(i), 2, ""); err != nil {
					w.t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

// TestCutExport: an export that fails on its way does not look complete.
func TestCutExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bind(1, 101)
	w.many(1500)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.h.ServeHTTP(&breaking{rw, w}, r)
	}))
	defer srv.Close()
	req, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/v1/account/statement?format=csv", http.NoBody)
	w.must(err)
	signed.SignAt(req, nil, key(101), pub(200), w.clock())
	res, err := srv.Client().Do(req)
	w.must(err)
	raw, err := io.ReadAll(res.Body)
	res.Body.Close()
	if res.StatusCode != 200 || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("%s, %d bytes, %v", res.Status, len(raw), err)
	}
	srv.Close()
	if !strings.Contains(w.log.String(), "a statement ends early") || len(w.h.exports.running) != 0 || len(w.h.reading) != 0 {
		t.Errorf("%s, %v", w.log, w.h.exports.running)
	}
}

// breaking closes the database when the answer begins.
type breaking struct {
	http.ResponseWriter
	w *world
}

func (b *breaking) Write(p []byte) (int, error) {
	b.w.db.Close()
	return b.ResponseWriter.Write(p)
}

// TestReadersWait: so many statements are read at one time; more wait, and not
// for ever.
func TestReadersWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bind(1, 101)
	for range maxReading {
		w.h.reading <- struct{}{}
	}
	w.h.readWait = time.Millisecond
	for _, path := range []string{"statement", "earnings", "statement?format=csv"} {
		w.code(w.do(101, "GET", "/v1/account/"+path, nil, nil), protocol.CodeUnavailable)
	}
	<-w.h.reading
	for _, path := range []string{"statement", "earnings", "statement?format=csv"} {
		w.must(w.do(101, "GET", "/v1/account/"+path, nil, new([]byte)))
	}
	if len(w.h.reading) != maxReading-1 {
		t.Errorf("%d places are taken", len(w.h.reading))
	}
}

func TestWantsCSV(t *testing.T) {
	t.Parallel()
	for accept, want := range map[string]bool{
		"": false, "text/csv": true, "text/csv; charset=utf-8, */*": true, "application/json, text/csv": false, "*/*": false, "text/html, text/csv;q=0.9": true,
	} {
		if wantsCSV(accept) != want {
			t.Errorf("%q: %v", accept, !want)
		}
	}
}

func FuzzQuery(f *testing.F) {
	f.Add("cursor=1-2&limit=10&book=held,pending&since=2027-01-01&until=2027-01-31T12:00:00Z&model="+string(model)+"&range=0-4", "text/csv")
	f.Add("format=csv", "")
	f.Fuzz(func(t *testing.T, raw, accept string) {
		q, err := parseQuery(raw, accept, "cursor", "limit", "book", "since", "until", "model", "range", "format")
		if err != nil {
			if e := protocol.AsError(err); e.Code != protocol.CodeInvalidRequest {
				t.Error(err)
			}
			return
		}
		if q.limit < 0 || q.limit > maxPageLines || len(q.Books) > len(store.Books)-1 || q.Account != "" {
			t.Errorf("%+v", q)
		}
	})
}

func FuzzText(f *testing.F) {
	f.Add("=1+1")
	f.Add("a;\u00a0=1")
	f.Fuzz(func(t *testing.T, s string) {
		out := text(s)
		for _, part := range strings.FieldsFunc(out, func(r rune) bool { return r == ';' || r == '\t' || r == '\r' || r == '\n' }) {
			if p := strings.TrimSpace(part); p != "" && strings.ContainsAny(p[:1], "=+-@") {
				t.Errorf("%q became %q", s, out)
			}
		}
	})
}
