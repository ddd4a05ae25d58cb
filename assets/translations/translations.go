// Package translations embeds the texts of window and tray: one file
// <area>.<language>.json per area and language, in the form of go-i18n. Only
// internal/desktop/words imports it; it knows nothing of what is shown where.
//
// An id is "area.name". A text is a string, or an object with the plural forms
// of its language ("one", "many", "other"), chosen by the placeholder Count.
// Placeholders are written {{.Name}}.
package translations

import "embed"

// Files are all texts. Tests of internal/desktop/words hold the languages
// against each other and against the code.
//
//go:embed *.json
var Files embed.FS
