package icons

import "embed"

//go:embed tray-*.ico
var tray embed.FS

const (
	ending         = ".ico"
	templateEnding = ""
)
