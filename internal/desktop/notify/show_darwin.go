package notify

import (
	"context"
	"os/exec"
)

// show asks AppleScript. Texts are arguments and never part of the script.
func show(ctx context.Context, _, title, text string, _ uint32) (uint32, error) {
	return 0, exec.CommandContext(ctx, "/usr/bin/osascript",
		"-e", "on run argv", "-e", "display notification (item 2 of argv) with title (item 1 of argv)", "-e", "end run",
		"--", title, text).Run()
}
