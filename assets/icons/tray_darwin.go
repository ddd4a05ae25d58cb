package icons

import "embed"

//go:embed tray-*.png
var tray embed.FS

const (
	ending         = ".png"
	templateEnding = "-template.png"
)
