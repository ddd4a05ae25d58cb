package theme

import (
	"fmt"
	"strings"

	"fyne.io/fyne/v2"
	fynetheme "fyne.io/fyne/v2/theme"
)

// Icon is a drawing of lines on a field of 24 by 24, in one colour.
type Icon string

// The icons: the body of an SVG file, without its colours.
const (
	IconShare       Icon = `<circle cx="12" cy="5.5" r="2.5"/><circle cx="5.5" cy="17.5" r="2.5"/><circle cx="18.5" cy="17.5" r="2.5"/><path d="M10.8 7.7 6.7 15.3M13.2 7.7l4.1 7.6M8 17.5h8"/>`
	IconModels      Icon = `<path d="M12 3 3.5 7.5 12 12l8.5-4.500z"/><path d="M3.5 12 12 16.500l8.5-4.5"/><path d="M3.5 16.5 12 21l8.5-4.5"/>`
	IconChat        Icon = `<path d="M6 4.5 H18 A2.5 2.5 0 0 1 20.5 7 V14 A2.5 2.5 0 0 1 18 16.5 H11.5 L7 20.5 V16.5 H6 A2.5 2.5 0 0 1 3.5 14 V7 A2.5 2.5 0 0 1 6 4.5 z"/><path d="M8 9 H16 M8 12.3 H13"/>`
	IconEarnings    Icon = `<path d="M4 4v14.500a1.5 1.5 0 0 0 1.5 1.500H20"/><path d="M7.5 15l3.5-4 3 2.5 5-6"/>`
	IconNetwork     Icon = `<circle cx="12" cy="12" r="8.5"/><path d="M3.5 12h17M12 3.500c5 5.5 5 11.5 0 17M12 3.500c-5 5.5-5 11.5 0 17"/>`
	IconSettings    Icon = `<path d="M4 7h9M17.5 7H20M4 17h2.500M11 17h9"/><circle cx="15.2" cy="7" r="2.3"/><circle cx="8.8" cy="17" r="2.3"/>`
	IconDiagnostics Icon = `<path d="M3 12h4l2.5-7 5 14 2.5-7h4"/>`

	IconCheck   Icon = `<path d="M5 12.500l4.5 4.500L19 7.5"/>`
	IconClose   Icon = `<path d="M6 6l12 12M18 6 6 18"/>`
	IconPlus    Icon = `<path d="M12 5v14M5 12h14"/>`
	IconInfo    Icon = `<circle cx="12" cy="12" r="8.5"/><path d="M12 11v5M12 7.800v.4"/>`
	IconGood    Icon = `<circle cx="12" cy="12" r="8.5"/><path d="M8.5 12.300l2.5 2.5 4.5-5"/>`
	IconWarn    Icon = `<path d="M12 4 2.9 19.500h18.200z"/><path d="M12 10v4M12 16.700v.3"/>`
	IconBad     Icon = `<circle cx="12" cy="12" r="8.5"/><path d="M9.2 9.200l5.6 5.600M14.8 9.200l-5.6 5.6"/>`
	IconHelp    Icon = `<circle cx="12" cy="12" r="8.5"/><path d="M9.5 9.700a2.5 2.5 0 1 1 3.8 2.100c-.8.5-1.3 1-1.3 1.900M12 16.500v.3"/>`
	IconPause   Icon = `<path d="M9 5.500v13M15 5.500v13"/>`
	IconPlay    Icon = `<path d="M8 5.500v13l10.5-6.500z"/>`
	IconStop    Icon = `<path d="M7.5 6.500h9a1 1 0 0 1 1 1v9a1 1 0 0 1-1 1h-9a1 1 0 0 1-1-1v-9a1 1 0 0 1 1-1z"/>`
	IconRefresh Icon = `<path d="M19.5 12a7.5 7.5 0 1 1-2.2-5.300L19.5 9"/><path d="M19.5 4.500V9H15"/>`
	IconCopy    Icon = `<path d="M10 8.500h8a1.5 1.5 0 0 1 1.5 1.500v8a1.5 1.5 0 0 1-1.5 1.500h-8A1.5 1.5 0 0 1 8.5 18v-8A1.5 1.5 0 0 1 10 8.500z"/><path d="M15.5 5.500A1.5 1.5 0 0 0 14 4H6a2 2 0 0 0-2 2v8a1.5 1.5 0 0 0 1.5 1.5"/>`
	IconSearch  Icon = `<circle cx="10.8" cy="10.8" r="6.3"/><path d="M15.5 15.500l4.5 4.5"/>`
	IconMore    Icon = `<circle cx="5.5" cy="12" r=".9"/><circle cx="12" cy="12" r=".9"/><circle cx="18.5" cy="12" r=".9"/>`
	IconDelete  Icon = `<path d="M4.5 7h15M9.5 7V5a1 1 0 0 1 1-1h3a1 1 0 0 1 1 1v2M6.5 7l.8 12a1.2 1.2 0 0 0 1.2 1h7a1.2 1.2 0 0 0 1.2-1L17.5 7M10.2 11v5M13.8 11v5"/>`
	IconEdit    Icon = `<path d="M14.5 6.500l3 3M5 19l.8-3.800L16 5a1.4 1.4 0 0 1 2 0l1 1a1.4 1.4 0 0 1 0 2L8.8 18.200z"/>`
	IconSend    Icon = `<path d="M12 19V5.500M6 11.500l6-6 6 6"/>`
	IconUp      Icon = `<path d="M6 14.500l6-6 6 6"/>`
	IconDown    Icon = `<path d="M6 9.500l6 6 6-6"/>`
	IconLeft    Icon = `<path d="M14.5 6l-6 6 6 6"/>`
	IconRight   Icon = `<path d="M9.5 6l6 6-6 6"/>`
	IconBack    Icon = `<path d="M19 12H5.500M11.5 6l-6 6 6 6"/>`
	IconForward Icon = `<path d="M5 12h13.500M12.5 6l6 6-6 6"/>`
	IconLock    Icon = `<path d="M7 10.500h10a1.5 1.5 0 0 1 1.5 1.500v6.500A1.5 1.5 0 0 1 17 20H7a1.5 1.5 0 0 1-1.5-1.500V12A1.5 1.5 0 0 1 7 10.500z"/><path d="M8.5 10.500V8a3.5 3.5 0 0 1 7 0v2.5"/>`
	IconKey     Icon = `<circle cx="8" cy="15.5" r="4"/><path d="M11 12.7 19.5 4.500M15.5 8.300l3 3"/>`
	IconUser    Icon = `<circle cx="12" cy="8" r="3.8"/><path d="M4.5 20c.6-4 3.7-6 7.5-6s6.9 2 7.5 6"/>`
	IconCPU     Icon = `<path d="M8 6.500h8A1.5 1.5 0 0 1 17.5 8v8a1.5 1.5 0 0 1-1.5 1.500H8A1.5 1.5 0 0 1 6.5 16V8A1.5 1.5 0 0 1 8 6.500z"/><path d="M10 10h4v4h-4zM9.5 3.500v3M14.5 3.500v3M9.5 17.500v3M14.5 17.500v3M3.5 9.500h3M3.5 14.500h3M17.5 9.500h3M17.5 14.500h3"/>`
	IconGPU     Icon = `<path d="M3.5 5v15M3.5 7H19a1.5 1.5 0 0 1 1.5 1.500v7A1.5 1.5 0 0 1 19 17H3.500M8 17v2.500h5V17"/><circle cx="13.5" cy="12" r="2.7"/>`
	IconMemory  Icon = `<path d="M4.5 7h15A1.5 1.5 0 0 1 21 8.500V16H3V8.500A1.5 1.5 0 0 1 4.5 7zM6 16v2.500M10 16v2.500M14 16v2.500M18 16v2.500M7 10v3M12 10v3M17 10v3"/>`
	IconDisk    Icon = `<path d="M4.5 13.5 6.8 6A1.5 1.5 0 0 1 8.2 5h7.600a1.5 1.5 0 0 1 1.4 1l2.3 7.500M5.5 13h13a1.5 1.5 0 0 1 1.5 1.500v3a1.5 1.5 0 0 1-1.5 1.500h-13A1.5 1.5 0 0 1 4 17.500v-3A1.5 1.5 0 0 1 5.5 13zM16.5 16v.1"/>`
	IconBattery Icon = `<path d="M4.5 7.500h12A1.5 1.5 0 0 1 18 9v6a1.5 1.5 0 0 1-1.5 1.500h-12A1.5 1.5 0 0 1 3 15V9a1.5 1.5 0 0 1 1.5-1.500zM21 10.500v3M6.5 11v2M10 11v2"/>`
	IconClock   Icon = `<circle cx="12" cy="12" r="8.5"/><path d="M12 7v5l3.5 2"/>`
	IconBolt    Icon = `<path d="M13 3 5 13.500h6L10.5 21 19 10h-6z"/>`
	IconLoad    Icon = `<path d="M12 4v11M7 10.500l5 5 5-5M4.5 19.500h15"/>`
	IconSave    Icon = `<path d="M12 15.500V4.500M7 9l5-5 5 5M4.5 19.500h15"/>`
	IconFolder  Icon = `<path d="M3.5 17.500v-11A1.5 1.5 0 0 1 5 5h4l2 2.500h8A1.5 1.5 0 0 1 20.5 9v8.500A1.5 1.5 0 0 1 19 19H5a1.5 1.5 0 0 1-1.5-1.500z"/>`
	IconFile    Icon = `<path d="M13.5 3.500h-6A1.5 1.5 0 0 0 6 5v14a1.5 1.5 0 0 0 1.5 1.500h9A1.5 1.5 0 0 0 18 19V8zM13.5 3.500V8H18"/>`
	IconExtern  Icon = `<path d="M13.5 4.500h6v6M19.5 4.500l-9 9M17.5 14v4a1.5 1.5 0 0 1-1.5 1.500H6A1.5 1.5 0 0 1 4.5 18V8A1.5 1.5 0 0 1 6 6.500h4"/>`
	IconMoon    Icon = `<path d="M19.5 14.500A8 8 0 0 1 9.5 4.500a8 8 0 1 0 10 10z"/>`
	IconSun     Icon = `<circle cx="12" cy="12" r="4"/><path d="M12 3v1.500M12 19.500V21M3 12h1.500M19.5 12H21M5.6 5.600l1.1 1.100M17.3 17.300l1.1 1.100M18.4 5.600l-1.1 1.100M6.7 17.300l-1.1 1.1"/>`
	IconEye     Icon = `<path d="M2.5 12c4.5-8 14.5-8 19 0-4.5 8-14.5 8-19 0z"/><circle cx="12" cy="12" r="2.8"/>`
	IconHome    Icon = `<path d="M4 11l8-7 8 7v8a1 1 0 0 1-1 1h-4.500v-5.500h-5V20H5a1 1 0 0 1-1-1z"/>`
	IconDot     Icon = `<circle cx="12" cy="12" r="4"/>`
	IconNeuron  Icon = `<circle cx="12" cy="12" r="3.2"/><circle cx="5" cy="5.5" r="1.8"/><circle cx="19" cy="5.5" r="1.8"/><circle cx="5" cy="18.5" r="1.8"/><circle cx="19" cy="18.5" r="1.8"/><path d="M6.4 6.800l3.3 3M17.6 6.800l-3.3 3M6.4 17.200l3.3-3M17.6 17.200l-3.3-3"/>`
)

// Resource is the icon in one of the theme's colours; it follows the theme.
func (i Icon) Resource(name fyne.ThemeColorName) fyne.Resource { return &line{icon: i, color: name} }

// line is an icon with a colour. Fyne's own themed resources colour areas only.
type line struct {
	icon  Icon
	color fyne.ThemeColorName
}

var _ fyne.ThemedResource = (*line)(nil)

func (l *line) ThemeColorName() fyne.ThemeColorName { return l.color }

// Name is the key of Fyne's cache of drawings, which a change of theme empties.
func (l *line) Name() string { return string(l.color) + "-" + l.icon.digest() + ".svg" }

func (l *line) Content() []byte { return []byte(l.icon.SVG(Color(l.color))) }

// digest tells icons apart in a few letters.
func (i Icon) digest() string {
	h := uint64(14695981039346656037) // FNV-1a
	for _, b := range []byte(i) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return fmt.Sprintf("%016x", h)
}

// SVG is the icon as a file, in a colour.
func (i Icon) SVG(c interface{ RGBA() (r, g, b, a uint32) }) string {
	r, g, b, _ := c.RGBA()
	stroke := fmt.Sprintf(` fill="none" stroke="#%02x%02x%02x" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round"/>`, r>>8, g>>8, b>>8)
	return `<svg xmlns="http://www.w3.org/2000/svg" width="24" height="24" viewBox="0 0 24 24">` +
		strings.ReplaceAll(string(i), "/>", stroke) + `</svg>`
}

// Colored is a resource in another colour, for those who draw what others chose.
func Colored(r fyne.Resource, name fyne.ThemeColorName) fyne.Resource {
	if l, ok := r.(*line); ok {
		return l.icon.Resource(name)
	}
	return fynetheme.NewColoredResource(r, name)
}

// AppIcon is the program's own icon.
func AppIcon() fyne.Resource {
	drawn := strings.ReplaceAll(string(IconNeuron), "/>", ` fill="none" stroke="#ffffff" stroke-width="1.7" stroke-linecap="round"/>`)
	return fyne.NewStaticResource("neuron.svg", []byte(`<svg xmlns="http://www.w3.org/2000/svg" width="256" height="256" viewBox="-5 -5 34 34">`+
		`<rect x="-5" y="-5" width="34" height="34" rx="8" fill="#4a57e0"/>`+drawn+`</svg>`))
}
