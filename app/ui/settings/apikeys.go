package settings

import (
	"math"
	"strconv"
	"strings"

	"fyne.io/fyne/v2"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/settings"
	"neuron/engine/accounts"
	"neuron/internal/desktop/words"
)

// micro are the micro-credits of one credit.
const micro = 1e6

// keysCard lists the API keys.
type keysCard struct {
	page    *Page
	words   *words.Words
	card    fyne.CanvasObject
	list    *fyne.Container
	problem *kit.Notice
	shown   string // what the list shows
	secret  *kit.Dialog
}

func newKeysCard(p *Page) *keysCard {
	w := p.words
	k := &keysCard{page: p, words: w, list: kit.Column(10)}
	k.problem = kit.NewNotice(kit.Warn, "", "", kit.Secondary(w.T("settings.retry"), p.again).Compact())
	k.problem.Hide()
	add := kit.Secondary(w.T("settings.key_new"), k.create).Compact().WithIcon(theme.IconPlus)
	k.card = kit.TitledCard(w.T("settings.keys_title"), add, kit.Muted(w.T("settings.keys_text")), k.problem, k.list)
	return k
}

// update copies the model to the list.
func (k *keysCard) update() {
	v := k.page.keys.View()
	if v.New != nil && k.secret == nil {
		k.show(v.New)
	}
	k.problem.Hidden = v.Err == nil
	if v.Err != nil {
		text, remedy := k.words.Code(v.Err.Code, v.Err.Message)
		k.problem.Set(kit.Warn, text, remedy)
	}
	rows, shown := k.rows(v)
	if shown += strconv.FormatBool(v.Err == nil); shown != k.shown {
		k.shown = shown
		k.list.Objects = rows
		k.page.frame.Arrange()
	}
}

// rows are the list, and a text that is equal for equal ones.
func (k *keysCard) rows(v vm.KeysView) (rows []fyne.CanvasObject, shown string) {
	w := k.words
	if v.Known && len(v.Keys) == 0 {
		return cards(kit.Muted(w.T("settings.keys_none"))), "none"
	}
	var all strings.Builder
	for _, key := range v.Keys {
		text := w.T("settings.key_spent", "ID", key.ID, "Today", w.Credits(key.Today.Micros), "Total", w.Credits(key.Total.Micros))
		if key.Limits.BudgetDay > 0 {
			text += " " + w.T("settings.key_limit", "Credits", w.Credits(key.Limits.BudgetDay))
		}
		buttons := kit.Beside(theme.GapXS,
			kit.Quiet(w.T("settings.key_limit_do"), func() { k.limit(key) }).Compact(),
			kit.Quiet(w.T("settings.key_revoke"), func() { k.revoke(key) }).Compact().WithIcon(theme.IconDelete))
		rows = append(rows, kit.NewRow(name(key, w), text, buttons))
		all.WriteString(key.ID + name(key, w) + text)
	}
	if len(rows) == 0 {
		return nil, ""
	}
	return cards(kit.Rows(rows...)), all.String()
}

func name(k accounts.Key, w *words.Words) string {
	if k.Name == "" {
		return w.T("settings.key_unnamed")
	}
	return k.Name
}

// parseCredits reads an amount as people type it; "" is no limit.
func parseCredits(text string) (amount int64, ok bool) {
	text = strings.ReplaceAll(strings.TrimSpace(text), ",", ".")
	if text == "" {
		return 0, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || !(f >= 0 && f <= 1e9) {
		return 0, false
	}
	return int64(math.Round(f * micro)), true
}

func (k *keysCard) create() {
	w := k.words
	title := kit.NewField("", w.T("settings.key_name"), nil)
	limit := kit.NewField("", w.T("settings.key_day"), nil)
	wrong := kit.Muted("").SetTone(kit.Bad)
	d := &kit.Dialog{Title: w.T("settings.key_new"), Text: w.T("settings.key_new_text"), Body: kit.Column(theme.GapS, title, limit, wrong)}
	d.Buttons = []fyne.CanvasObject{
		kit.Secondary(w.T("settings.cancel"), d.Close),
		kit.Primary(w.T("settings.key_create"), func() {
			amount, ok := parseCredits(limit.Text)
			if !ok {
				wrong.Set(w.T("settings.bad_number"))
				return
			}
			d.Close()
			k.page.keys.Create(strings.TrimSpace(title.Text), accounts.Limits{BudgetDay: amount})
		}),
	}
	d.Open(k.page.env.Window)
}

// show shows the secret, this once.
func (k *keysCard) show(n *accounts.NewKey) {
	w := k.words
	k.secret = &kit.Dialog{
		Title: w.T("settings.key_made"), Text: w.T("settings.key_made_text"), Width: 520,
		Body:   kit.NewCode("", n.Secret, w.T("settings.copy"), w.T("settings.copied")),
		Closed: func() { k.secret = nil; k.page.keys.Seen() },
	}
	k.secret.Buttons = []fyne.CanvasObject{kit.Primary(w.T("settings.key_stored"), k.secret.Close)}
	k.secret.Open(k.page.env.Window)
}

func (k *keysCard) limit(key accounts.Key) {
	w := k.words
	now := ""
	if key.Limits.BudgetDay > 0 {
		now = strconv.FormatFloat(float64(key.Limits.BudgetDay)/micro, 'f', -1, 64)
	}
	field := kit.NewField(now, w.T("settings.key_day"), nil)
	wrong := kit.Muted("").SetTone(kit.Bad)
	d := &kit.Dialog{Title: name(key, w), Text: w.T("settings.key_limit_text"), Body: kit.Column(theme.GapS, field, wrong)}
	d.Buttons = []fyne.CanvasObject{
		kit.Secondary(w.T("settings.cancel"), d.Close),
		kit.Primary(w.T("settings.key_limit_do"), func() {
			amount, ok := parseCredits(field.Text)
			if !ok {
				wrong.Set(w.T("settings.bad_number"))
				return
			}
			d.Close()
			l := key.Limits
			l.BudgetDay = amount
			k.page.keys.Limit(key.ID, l)
		}),
	}
	d.Open(k.page.env.Window)
}

func (k *keysCard) revoke(key accounts.Key) {
	w := k.words
	kit.Confirm(k.page.env.Window, w.T("settings.key_revoke_title", "Name", name(key, w)), w.T("settings.key_revoke_text"),
		w.T("settings.key_revoke"), w.T("settings.cancel"), true, func() { k.page.keys.Revoke(key.ID) })
}
