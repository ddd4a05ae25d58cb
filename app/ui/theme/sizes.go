package theme

import (
	"fyne.io/fyne/v2"
	fynetheme "fyne.io/fyne/v2/theme"
)

// The scale of distances. Nothing in the window uses another one.
const (
	GapXS  float32 = 4
	GapS   float32 = 8
	GapM   float32 = 12
	GapL   float32 = 16
	GapXL  float32 = 24
	GapXXL float32 = 32
)

// Sizes that several components share.
const (
	Radius      float32 = 12 // of cards
	RadiusSmall float32 = 8  // of controls
	IconSize    float32 = 18 // beside text
	Readable    float32 = 880
)

// The sizes of text.
const (
	TextTitle   float32 = 24
	TextNumber  float32 = 26
	TextHeading float32 = 16
	TextBody    float32 = 14
	TextSmall   float32 = 13
	TextCaption float32 = 12
)

var sizes = map[fyne.ThemeSizeName]float32{
	fynetheme.SizeNameText:               TextBody,
	fynetheme.SizeNameCaptionText:        TextCaption,
	fynetheme.SizeNameHeadingText:        TextTitle,
	fynetheme.SizeNameSubHeadingText:     TextHeading,
	fynetheme.SizeNameInlineIcon:         IconSize,
	fynetheme.SizeNameInnerPadding:       8,
	fynetheme.SizeNamePadding:            4,
	fynetheme.SizeNameLineSpacing:        4,
	fynetheme.SizeNameScrollBar:          10,
	fynetheme.SizeNameScrollBarSmall:     4,
	fynetheme.SizeNameScrollBarRadius:    5,
	fynetheme.SizeNameSeparatorThickness: 1,
	fynetheme.SizeNameInputBorder:        1,
	fynetheme.SizeNameInputRadius:        RadiusSmall,
	fynetheme.SizeNameSelectionRadius:    6,
}
