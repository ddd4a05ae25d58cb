package kit

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// Page is a page's frame: heading, one sentence, actions to the right, and
// content of a readable width that scrolls.
type Page struct {
	widget.BaseWidget

	title    *Text
	subtitle *Text
	actions  *fyne.Container
	body     *fyne.Container
	scroll   *container.Scroll
}

// NewPage makes one with its cards; subtitle "" leaves it out.
func NewPage(title, subtitle string, cards ...fyne.CanvasObject) *Page {
	p := &Page{title: Title(title).Cut(), subtitle: newText(style{theme.TextBody, fyne.TextStyle{}, theme.Muted}, subtitle, true)}
	p.subtitle.Hidden = subtitle == ""
	p.actions = Beside(theme.GapS)
	p.body = Column(theme.GapL, cards...)
	head := Beside(theme.GapL, Grow(Column(4, p.title, p.subtitle)), p.actions)
	p.scroll = container.NewVScroll(Narrow(theme.Readable, Inset(theme.GapXXL, 28, Column(20, head, p.body))))
	p.ExtendBaseWidget(p)
	return p
}

// SetSubtitle changes the sentence.
func (p *Page) SetSubtitle(s string) {
	p.subtitle.Set(s)
	if p.subtitle.Hidden != (s == "") {
		p.subtitle.Hidden = s == ""
		p.Refresh()
	}
}

// SetActions puts buttons to the right of the heading.
func (p *Page) SetActions(objects ...fyne.CanvasObject) {
	p.actions.Objects = objects
	p.actions.Refresh()
}

// SetCards replaces the content. To show and hide single cards, hide them and
// call Arrange: that is cheaper.
func (p *Page) SetCards(cards ...fyne.CanvasObject) {
	p.body.Objects = cards
	p.Arrange()
}

// Arrange lays the content out anew after cards were shown or hidden, or have
// grown.
func (p *Page) Arrange() {
	p.body.Refresh()
	p.scroll.Refresh()
}

// ScrollTo brings the top of one of the page's cards into view.
func (p *Page) ScrollTo(card fyne.CanvasObject) {
	p.scroll.ScrollToOffset(fyne.NewPos(0, card.Position().Y))
}

// ScrollToTop shows the beginning.
func (p *Page) ScrollToTop() { p.scroll.ScrollToTop() }

// CreateRenderer implements fyne.Widget.
func (p *Page) CreateRenderer() fyne.WidgetRenderer {
	return draw(
		func() fyne.Size { return fyne.NewSize(360, 200) },
		func(s fyne.Size) {
			p.scroll.Resize(s)
			p.scroll.Refresh() // heights have followed the width
		},
		func() {},
		p.scroll)
}
