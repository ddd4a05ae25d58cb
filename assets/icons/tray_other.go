//go:build !windows && !darwin

package icons

import "embed"

//go:embed tray-sharing.png tray-paused.png tray-attention.png tray-off.png tray-connecting.png
var tray embed.FS

const (
	ending         = ".png"
	templateEnding = ""
)
