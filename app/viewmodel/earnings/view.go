package earnings

import (
	"cmp"
	"slices"
	"time"

	"neuron/engine/accounts"
	"neuron/engine/protocol"
)

// Stage says what there is to show.
type Stage int

// The stages.
const (
	Loading Stage = iota
	Failed        // View.Err says why
	Empty         // nothing was earned in the last year
	Ready
)

// View is what the page shows; all words are the user's.
type View struct {
	Stage    Stage
	Err      *protocol.Error // of the last question, also when there is something to show
	Grouping Grouping
	Loading  bool

	Available, Pending, Today, Total string
	Frozen                           string // "" when nothing is
	Bars                             []Bar  // oldest first
	Hint                             string // how to read the bars, or that nothing came in
	Models, Shards                   []Part // largest first
	Lines                            []Line
	More, LoadingMore                bool

	File    *File
	FileErr *protocol.Error
}

// Bar is one day, week or month.
type Bar struct {
	Label string // below it, "" where there is no room
	Value float64
	Text  string // when it began, and the amount
}

// Part is what one model, or one range of one, has earned in the bars' time.
type Part struct {
	Name, Text, Amount string
	Share              float32 // of the largest
}

// Line is one line of the account.
type Line struct {
	When, What, About, Amount string
	Out                       bool // it went away
}

// maxParts bounds the lists.
const maxParts = 8

// View is the present state.
func (m *Model) View() View {
	w := m.o.Words
	m.mu.Lock()
	defer m.mu.Unlock()
	v := View{Err: m.err, Grouping: m.grouping, Loading: m.loading, LoadingMore: m.more, More: m.next != "", File: m.file, FileErr: m.fileErr}
	if !m.loaded {
		if m.err != nil && !m.loading {
			v.Stage = Failed
		}
		return v
	}
	v.Stage = Ready
	if len(m.earned) == 0 && len(m.lines) == 0 {
		v.Stage = Empty
	}
	balance := func(book string) int64 { return m.account.Balances[book].Micros }
	v.Available, v.Pending = w.Credits(balance("available")), w.Credits(balance("pending"))
	if f := balance("frozen"); m.account.Frozen || f > 0 {
		v.Frozen = w.T("earnings.frozen", "Amount", w.Credits(f))
	}
	m.bars(&v)
	for i := range m.lines {
		v.Lines = append(v.Lines, m.line(&m.lines[i]))
	}
	return v
}

// begin is the day on which the group of a day begins.
func (g Grouping) begin(day time.Time) time.Time {
	switch g {
	case Weeks:
		return day.AddDate(0, 0, -(int(day.Weekday())+6)%7)
	case Months:
		return day.AddDate(0, 0, 1-day.Day())
	}
	return day
}

// before is the group before one that begins on a day.
func (g Grouping) before(day time.Time) time.Time {
	switch g {
	case Weeks:
		return day.AddDate(0, 0, -7)
	case Months:
		return day.AddDate(0, -1, 0)
	}
	return day.AddDate(0, 0, -1)
}

func (g Grouping) count() int {
	if g == Days {
		return 30
	}
	return 12
}

// bars sums what came in. Days are those of the tracker, in UTC.
func (m *Model) bars(v *View) {
	w := m.o.Words
	today := m.o.Now().UTC().Truncate(24 * time.Hour)
	first := m.grouping.begin(today)
	begins := []time.Time{first}
	for len(begins) < m.grouping.count() {
		first = m.grouping.before(first)
		begins = append(begins, first)
	}
	slices.Reverse(begins)
	sums := make(map[time.Time]int64, len(begins))
	models, shards := make(map[string]*sum), make(map[string]*sum)
	var total, now int64
	for i := range m.earned {
		e := &m.earned[i]
		day, err := time.Parse(time.DateOnly, e.Day)
		if err != nil || day.Before(first) {
			continue
		}
		sums[m.grouping.begin(day)] += e.Amount.Micros
		total += e.Amount.Micros
		if day.Equal(today) {
			now += e.Amount.Micros
		}
		name := e.ModelName
		if name == "" {
			name = w.T("earnings.other")
		}
		add(models, name, name, e)
		if e.Range != nil {
			add(shards, name+e.Range.String(), name+", "+w.T("earnings.layers", "First", e.Range.First, "Last", e.Range.Last-1), e)
		}
	}
	v.Today, v.Total = w.Credits(now), w.Credits(total)
	for i, b := range begins {
		bar := Bar{Value: float64(sums[b]) / 1e6, Text: w.T("earnings.bar", "Day", w.Day(b), "Amount", w.Credits(sums[b]))}
		if every := (len(begins) + 5) / 6; (len(begins)-1-i)%every == 0 {
			bar.Label = w.Day(b)
		}
		v.Bars = append(v.Bars, bar)
	}
	v.Hint = w.T("earnings.chart_hint")
	if total == 0 {
		v.Hint = w.T("earnings.chart_empty")
	}
	v.Models, v.Shards = m.parts(models), m.parts(shards)
}

// sum is what one part has earned.
type sum struct {
	name            string
	micros          int64
	prefill, decode int64
}

func add(to map[string]*sum, key, name string, e *accounts.Earning) {
	s := to[key]
	if s == nil {
		s = &sum{name: name}
		to[key] = s
	}
	s.micros += e.Amount.Micros
	s.prefill += e.Prefill
	s.decode += e.Decode
}

func (m *Model) parts(of map[string]*sum) []Part {
	w := m.o.Words
	list := make([]*sum, 0, len(of))
	for _, s := range of {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *sum) int { return cmp.Or(cmp.Compare(b.micros, a.micros), cmp.Compare(a.name, b.name)) })
	var out []Part
	for _, s := range list[:min(len(list), maxParts)] {
		p := Part{Name: s.name, Amount: w.Credits(s.micros), Text: w.T("earnings.rows", "Decode", w.Number(s.decode), "Prefill", w.Number(s.prefill))}
		if most := list[0].micros; most > 0 && s.micros > 0 {
			p.Share = float32(s.micros) / float32(most)
		}
		out = append(out, p)
	}
	return out
}

// kinds are the lines' kinds that have words of their own, see
// docs/protocol/ledger.md.
var kinds = map[string]string{
	"grant": "earnings.kind_grant", "reserve": "earnings.kind_reserve", "post": "earnings.kind_post", "earn": "earnings.kind_earn",
	"void": "earnings.kind_void", "seed": "earnings.kind_seed", "settle": "earnings.kind_settle", "freeze": "earnings.kind_freeze",
	"thaw": "earnings.kind_thaw", "forfeit": "earnings.kind_forfeit", "correct": "earnings.kind_correct",
}

func (m *Model) line(l *accounts.Line) Line {
	w := m.o.Words
	out := Line{When: w.Day(l.At) + " " + w.Clock(l.At), What: l.Kind, Amount: w.Credits(l.Amount.Micros), Out: l.Amount.Micros < 0, About: l.Note}
	if id, ok := kinds[l.Kind]; ok {
		out.What = w.T(id)
	}
	if l.ModelName != "" {
		out.About = l.ModelName
		if l.Range != nil {
			out.About += ", " + w.T("earnings.layers", "First", l.Range.First, "Last", l.Range.Last-1)
		}
	}
	return out
}
