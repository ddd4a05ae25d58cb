package settings

import (
	"io"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/dialog"
	"fyne.io/fyne/v2/storage"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	vm "neuron/app/viewmodel/settings"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/words"
)

// accountCard is the owner key and the computers that belong to it.
type accountCard struct {
	page  *Page
	words *words.Words
	cards []fyne.CanvasObject

	who, own *kit.Text
	state    *kit.Badge
	problem  *kit.Notice
	leave    *kit.Row
	pairing  *pairDialog
	joining  *joinDialog
}

func newAccountCard(p *Page) *accountCard {
	w := p.words
	a := &accountCard{page: p, words: w, state: kit.NewBadge(kit.Subtle, theme.IconUser, w.T("settings.owner_unknown"))}
	a.problem = kit.NewNotice(kit.Warn, "", "", kit.Secondary(w.T("settings.retry"), p.again).Compact())
	a.problem.Hide()
	var own, who fyne.CanvasObject
	own, a.own = kit.Fact(w.T("settings.owner_own"), "–")
	who, a.who = kit.Fact(w.T("settings.owner_of"), "–")
	a.leave = kit.NewRow(w.T("settings.leave"), w.T("settings.leave_text"), kit.Secondary(w.T("settings.leave_do"), a.askLeave))
	a.leave.Hide()
	a.cards = cards(
		kit.TitledCard(w.T("settings.owner_title"), a.state, kit.Muted(w.T("settings.owner_text")), a.problem, own, who, kit.Divider(), kit.Rows(
			kit.NewRow(w.T("settings.export"), w.T("settings.export_text"), kit.Secondary(w.T("settings.export_do"), a.export).WithIcon(theme.IconKey)),
			kit.NewRow(w.T("settings.recover"), w.T("settings.recover_text"), kit.Secondary(w.T("settings.recover_do"), a.recover)),
		)),
		kit.TitledCard(w.T("settings.pair_title"), nil, kit.Rows(
			kit.NewRow(w.T("settings.pair"), w.T("settings.pair_text"), kit.Secondary(w.T("settings.pair_do"), a.pair)),
			kit.NewRow(w.T("settings.join"), w.T("settings.join_text"), kit.Secondary(w.T("settings.join_do"), a.join)),
			a.leave,
		)))
	return a
}

// update copies the model to the card and to the dialogs that are open.
func (a *accountCard) update() {
	v := a.page.owner.View()
	if a.pairing != nil {
		a.pairing.update(v)
	}
	if a.joining != nil {
		a.joining.update(v)
	}
	hidden := a.problem.Hidden
	a.problem.Hidden = v.Err == nil || a.pairing != nil || a.joining != nil
	if v.Err != nil {
		text, remedy := a.words.Code(v.Err.Code, v.Err.Message)
		a.problem.Set(kit.Warn, text, remedy)
	}
	if o := v.Owner; o != nil {
		a.own.Set(short(string(o.Own)))
		a.who.Set(short(string(o.Wanted)))
		switch o.Status {
		case "bound":
			a.state.Set(kit.Good, "", a.words.T("settings.owner_bound"))
		case "waiting":
			a.state.Set(kit.Accent, theme.IconClock, a.words.T("settings.owner_waiting"))
		case "failed":
			a.state.Set(kit.Warn, "", a.words.T("settings.owner_failed"))
		default:
			a.state.Set(kit.Subtle, theme.IconUser, a.words.T("settings.owner_unknown"))
		}
		if foreign := o.Own != "" && o.Wanted != "" && o.Own != o.Wanted; foreign == a.leave.Hidden {
			a.leave.Hidden = !foreign
			a.page.frame.Arrange()
		}
	}
	if hidden != a.problem.Hidden {
		a.page.frame.Arrange()
	}
}

// short is the beginning of an id, "–" for none.
func short(id string) string {
	switch {
	case id == "":
		return "–"
	case len(id) > 22:
		return id[:22] + "…"
	}
	return id
}

func (a *accountCard) askLeave() {
	w := a.words
	kit.Confirm(a.page.env.Window, w.T("settings.leave_title"), w.T("settings.leave_ask"), w.T("settings.leave_do"), w.T("settings.cancel"), true, a.page.owner.Leave)
}

// least is how long a passphrase has to be.
const least = 10

// export asks for a passphrase and for a place.
func (a *accountCard) export() {
	w := a.words
	first, second := widget.NewPasswordEntry(), widget.NewPasswordEntry()
	first.SetPlaceHolder(w.T("settings.passphrase"))
	second.SetPlaceHolder(w.T("settings.passphrase_again"))
	wrong := kit.Muted("").SetTone(kit.Bad)
	d := &kit.Dialog{Title: w.T("settings.export"), Text: w.T("settings.export_ask"), Body: kit.Column(theme.GapS, first, second, wrong)}
	d.Buttons = []fyne.CanvasObject{
		kit.Secondary(w.T("settings.cancel"), d.Close),
		kit.Primary(w.T("settings.export_do"), func() {
			switch {
			case len(first.Text) < least:
				wrong.Set(w.T("settings.passphrase_short", "Least", least))
			case first.Text != second.Text:
				wrong.Set(w.T("settings.passphrase_differs"))
			default:
				d.Close()
				a.page.owner.Export(first.Text, func(file []byte) { a.page.env.Do(func() { a.store(file) }) })
			}
		}),
	}
	d.Open(a.page.env.Window)
}

// store writes the exported key where the user says.
func (a *accountCard) store(file []byte) {
	win := a.page.env.Window
	d := dialog.NewFileSave(func(out fyne.URIWriteCloser, err error) {
		if out == nil {
			if err != nil {
				a.failed(err)
			}
			return
		}
		_, err = out.Write(file)
		if end := out.Close(); err == nil {
			err = end
		}
		if err != nil {
			a.failed(err)
		}
	}, win)
	d.SetFileName("neuron-owner-key.txt")
	d.Show()
}

func (a *accountCard) failed(err error) {
	w := a.words
	d := &kit.Dialog{Title: w.T("settings.file_failed"), Text: err.Error()}
	d.Buttons = []fyne.CanvasObject{kit.Primary(w.T("settings.close"), d.Close)}
	d.Open(a.page.env.Window)
}

// maxKeyFile bounds an exported key, in bytes.
const maxKeyFile = 64 << 10

// recover asks for a file and its passphrase.
func (a *accountCard) recover() {
	d := dialog.NewFileOpen(func(in fyne.URIReadCloser, err error) {
		if in == nil {
			if err != nil {
				a.failed(err)
			}
			return
		}
		defer in.Close()
		file, err := io.ReadAll(io.LimitReader(in, maxKeyFile))
		if err != nil {
			a.failed(err)
			return
		}
		a.unlock(string(file))
	}, a.page.env.Window)
	d.SetFilter(storage.NewExtensionFileFilter([]string{".txt", ".json", ".key"}))
	d.Show()
}

func (a *accountCard) unlock(file string) {
	w := a.words
	pass := widget.NewPasswordEntry()
	pass.SetPlaceHolder(w.T("settings.passphrase"))
	d := &kit.Dialog{Title: w.T("settings.recover"), Text: w.T("settings.recover_ask"), Body: pass}
	d.Buttons = []fyne.CanvasObject{
		kit.Secondary(w.T("settings.cancel"), d.Close),
		kit.Primary(w.T("settings.recover_do"), func() {
			d.Close()
			a.page.owner.Recover(localapi.Recover{File: file, Passphrase: pass.Text, Replace: true}, func(got *localapi.Recovered) {
				a.page.env.Do(func() { a.recovered(got) })
			})
		}),
	}
	d.Open(a.page.env.Window)
}

func (a *accountCard) recovered(got *localapi.Recovered) {
	w := a.words
	text := w.T("settings.recovered_same")
	if got.Changed {
		text = w.T("settings.recovered")
		if got.Saved != "" {
			text += " " + w.T("settings.recovered_saved", "File", got.Saved)
		}
	}
	d := &kit.Dialog{Title: w.T("settings.recover"), Text: text}
	d.Buttons = []fyne.CanvasObject{kit.Primary(w.T("settings.close"), d.Close)}
	d.Open(a.page.env.Window)
}

// pairDialog shows a code for a further computer and waits for it.
type pairDialog struct {
	card    *accountCard
	dialog  *kit.Dialog
	code    *kit.Code
	text    *kit.Text
	confirm *kit.Button
}

func (a *accountCard) pair() {
	w := a.words
	p := &pairDialog{card: a, code: kit.NewCode("", "…", w.T("settings.copy"), w.T("settings.copied")), text: kit.Muted(w.T("settings.pair_wait"))}
	p.confirm = kit.Primary(w.T("settings.pair_confirm"), a.page.owner.Confirm)
	p.confirm.Disable()
	p.dialog = &kit.Dialog{Title: w.T("settings.pair"), Text: w.T("settings.pair_ask"), Body: kit.Column(theme.GapM, p.code, p.text)}
	p.dialog.Buttons = []fyne.CanvasObject{kit.Secondary(w.T("settings.close"), p.dialog.Close), p.confirm}
	p.dialog.Closed = func() { a.pairing = nil; a.page.owner.EndPair() }
	a.pairing = p
	p.dialog.Open(a.page.env.Window)
	a.page.owner.Pair()
}

func (p *pairDialog) update(v vm.OwnerView) {
	w := p.card.words
	switch {
	case v.Err != nil:
		text, remedy := w.Code(v.Err.Code, v.Err.Message)
		p.text.SetTone(kit.Bad).Set(text + " " + remedy)
	case v.Paired:
		p.text.SetTone(kit.Good).Set(w.T("settings.paired"))
		p.confirm.SetEnabled(false)
	case v.Pairing != nil:
		p.code.Set(v.Pairing.Code)
		text := w.T("settings.pair_wait") + " " + w.T("settings.pair_until", "Time", w.Time(v.Pairing.Expires))
		if o := v.Pairing.Offer; o != nil {
			text = w.T("settings.pair_offer", "Host", host(o))
		}
		p.text.SetTone(kit.Plain).Set(text)
		p.confirm.SetEnabled(v.Pairing.Offer != nil && !v.Busy)
	}
}

// host says which computer came.
func host(o *localapi.Offer) string {
	if o.Host != "" {
		return o.Host + " (" + o.Node.Short() + ")"
	}
	return o.Node.Short()
}

// joinDialog takes a code of another computer.
type joinDialog struct {
	card   *accountCard
	dialog *kit.Dialog
	entry  *kit.Field
	text   *kit.Text
	act    *kit.Button
	asked  string // the code that was looked up
}

func (a *accountCard) join() {
	w := a.words
	j := &joinDialog{card: a, text: kit.Muted(""), entry: kit.NewField("", w.T("settings.join_code"), nil)}
	j.act = kit.Primary(w.T("settings.join_look"), j.press)
	j.entry.OnSubmitted = func(string) { j.press() }
	j.dialog = &kit.Dialog{Title: w.T("settings.join"), Text: w.T("settings.join_ask"), Body: kit.Column(theme.GapM, j.entry, j.text)}
	j.dialog.Buttons = []fyne.CanvasObject{kit.Secondary(w.T("settings.cancel"), j.dialog.Close), j.act}
	j.dialog.Closed = func() { a.joining = nil; a.page.owner.Forget() }
	a.joining = j
	j.dialog.Open(a.page.env.Window)
}

// press looks the code up, then joins the owner that was shown.
func (j *joinDialog) press() {
	o := j.card.page.owner
	if found := o.View().Found; found != "" && j.asked == j.entry.Text {
		o.Join(j.asked)
		j.dialog.Close()
		return
	}
	j.asked = j.entry.Text
	o.LookUp(j.asked)
}

func (j *joinDialog) update(v vm.OwnerView) {
	w := j.card.words
	j.act.SetEnabled(!v.Busy)
	switch {
	case v.Err != nil && v.Err.Code != protocol.CodeCancelled:
		text, remedy := w.Code(v.Err.Code, v.Err.Message)
		j.text.SetTone(kit.Bad).Set(text + " " + remedy)
	case v.Found != "":
		j.text.SetTone(kit.Plain).Set(w.T("settings.join_found", "Owner", short(string(v.Found))))
		j.act.Set(w.T("settings.join_do"), "")
	}
}
