package kit_test

import (
	"testing"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"

	"neuron/app/ui/kit"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
)

// gallery shows every component, as pages use them.
func gallery() fyne.CanvasObject {
	none := func() {}
	off := kit.Secondary("Not now", none)
	off.Disable()
	buttons := kit.Wrapped(theme.GapS,
		kit.Primary("Share this computer", none).WithIcon(theme.IconShare), kit.Secondary("Pause", none).WithIcon(theme.IconPause),
		kit.Quiet("Details", none), kit.Danger("Delete", none).WithIcon(theme.IconDelete), off,
		kit.Secondary("", none).WithIcon(theme.IconRefresh), kit.Quiet("Retry", none).Compact().WithIcon(theme.IconRefresh))
	badges := kit.Wrapped(theme.GapS,
		kit.NewBadge(kit.Good, theme.IconShare, "Sharing"), kit.NewBadge(kit.Plain, theme.IconPause, "Paused"),
		kit.NewBadge(kit.Accent, theme.IconLoad, "Downloading"), kit.NewBadge(kit.Warn, "", "Attention"),
		kit.NewBadge(kit.Bad, "", "Failed"), kit.NewBadge(kit.Subtle, theme.IconDot, "Off"))
	disabled := kit.NewToggle(true, nil)
	disabled.Disable()
	_, choice := kit.NewSelect(180, []string{"English", "Deutsch", "Français"}, 0, func(int) {})
	problem := kit.NewRow("Daily limit", "Both directions together.", kit.NewNumberField(50, "GB", "no limit", func(float64) {}, func(string) {}))
	problem.SetProblem("Please type a number.")
	cells := make([]kit.Cell, 36)
	for i := range cells {
		cells[i] = kit.Cell{Count: (i / 5) % 4, Mine: i >= 6 && i < 18}
	}
	fact, _ := kit.Fact("Engine", "0.1.0, process 4711, 58 MB")
	return kit.NewPage("Share", "Sharing this computer. 3 conversations run through it now.",
		kit.NewNotice(kit.Warn, "The network cannot be reached.", "Check the address in Settings, or wait: it is tried again every few seconds.", kit.Secondary("Retry", none).Compact()),
		kit.Tiles(170, theme.GapM,
			kit.NewStatTile("Speed now", "37.4", "tokens per second"), kit.NewStatTile("Today", "128,311", "tokens for others"),
			kit.NewStatTile("Earned today", "4.18", "credits"), kit.NewStatTile("Transfer today", "2.1 GB", "of 50 GB")),
		kit.TitledCard("Buttons and badges", kit.NewBadge(kit.Good, "", "Ready"), buttons, badges,
			kit.NewSegmented([]string{"System", "Dark", "Light"}, 1, func(int) {})),
		kit.TitledCard("What this computer holds", nil,
			kit.Sentence("Layers 6 to 17 of 36 of Llama 3.1 8B Instruct. They take 2.4 GB of the disk and 1.9 GB of memory."),
			kit.NewMeter("Downloaded", 0.62, "1.5 of 2.4 GB, 3 minutes left"), kit.NewStrip(cells),
			kit.Muted("Layers 0 to 4, 20 to 24 are held by no computer at the moment. The underlined ones are yours.")),
		kit.TitledCard("When to share", nil, kit.Rows(
			kit.NewRow("Only when I am away", "Nobody has used the keyboard or the mouse for some minutes.", kit.NewToggle(true, nil)),
			kit.NewRow("On battery", "", kit.NewToggle(false, nil)),
			kit.NewRow("On metered connections", "This system does not tell whether the connection is metered.", disabled),
			kit.NewRow("Language", "", choice), problem)),
		kit.Card(kit.Strong("Access for other programs"), kit.NewCode("", "http://127.0.0.1:8555/v1", "Copy", "Copied"),
			kit.NewCode("shell", "curl http://127.0.0.1:8555/v1/models \\\n  -H 'Authorization: Bearer sk-…'", "Copy", "Copied"), fact),
		kit.Card(kit.Empty(theme.IconChat, "No conversations yet", "Ask something: the answer is computed by the computers of the network.", kit.Primary("New conversation", none))),
		kit.Card(kit.NewLoading("Looking at this computer…")),
		kit.Card(kit.Failed("The engine does not run", "It has ended four times within a minute. The report under Diagnostics says why.", kit.Secondary("Try again", none))),
	)
}

func TestGallery(t *testing.T) {
	for _, mode := range uitest.Themes {
		uitest.App(t, mode)
		w := uitest.Window(t, gallery(), 900, 2050)
		uitest.Picture(t, w, "kit-"+string(mode))
		w.Resize(fyne.NewSize(420, 2900))
		uitest.Settle(w)
		uitest.Picture(t, w, "kit-narrow-"+string(mode))
	}
}

func TestDialogPicture(t *testing.T) {
	for _, mode := range uitest.Themes {
		uitest.App(t, mode)
		w := uitest.Window(t, container.NewStack(gallery()), 900, 600)
		kit.Confirm(w, "Delete this key?", "Programs that use it cannot reach your account any more. This cannot be undone.", "Delete", "Keep it", true, func() {})
		uitest.Picture(t, w, "kit-dialog-"+string(mode))
	}
}
