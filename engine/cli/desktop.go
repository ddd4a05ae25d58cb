package cli

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"neuron/engine/desktop"
	"neuron/internal/logging"
)

// Of the log of a desktop engine.
const (
	ringLines = 1000
	logBytes  = 10 << 20
)

// desktopCommand is the engine of a person's computer. The tray and the window
// start it; people may, too.
func desktopCommand() *cobra.Command {
	var o desktop.Options
	c := &cobra.Command{
		Use:   "desktop",
		Short: "Run the engine of a desktop computer: node, gateway and the rules of sharing",
		Long: "Run the engine of a desktop computer: a node, a gateway and the rules of sharing, by\n" +
			"the settings of the data folder. Nothing is shared before the user has said so. The\n" +
			"window, the tray and the commands share, pause, resume, settings, limits, hardware,\n" +
			"network, status and diagnostics look at it and change it.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			files := logging.NewFiles(filepath.Join(o.Data, "logs", "engine.log"), logBytes)
			defer files.Close()
			o.Ring = logging.NewRing(ringLines)
			o.LogLost = files.Err
			o.Log = logging.ToEnv(func(l logging.Levels) []slog.Handler {
				text := slog.HandlerOptions{Level: l.Lowest()}
				// A file that a starter gave for what goes wrong needs no second log.
				terse := text
				if !isTerminal(os.Stderr) {
					terse.Level = slog.LevelError
				}
				return []slog.Handler{slog.NewTextHandler(os.Stderr, &terse), slog.NewTextHandler(files, &text), o.Ring.Handler()}
			}).For
			if o.Guide == "" {
				o.Guide = bundledModel()
			}
			e, err := desktop.New(c.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "desktop %s api %s data %s\n", e.Node(), e.Address().URL, o.Data)
			return e.Run(c.Context())
		},
	}
	f := c.Flags()
	dataFlag(c, &o.Data, "folder for settings, keys, layers and the local API")
	f.StringVar(&o.Owner, "owner-data", "", ownerHelp)
	f.StringVar(&o.Tracker, "tracker", "", "address of the tracker, for settings that have none (http:// or https://)")
	f.StringArrayVar(&o.Models, "model", nil, "GGUF whose tokenizer and template the gateway has from the start (may be given several times)")
	f.StringVar(&o.GatewayListen, "listen", "", "address of the OpenAI API (default: 127.0.0.1:8484, or a free port when that is taken)")
	f.StringVar(&o.APIListen, "local-api", "127.0.0.1:0", "address of the local API, loopback only")
	f.StringVar(&o.SeamListen, "seam", "127.0.0.1:0", "address on which other nodes reach this one")
	f.StringVar(&o.SeamAddr, "seam-public", "", "host:port that others should dial, when it is another one")
	f.StringVar(&o.SwarmListen, "swarm", "127.0.0.1:0", "address on which other nodes fetch layers from this one")
	f.BoolVar(&o.Halves, "half-seams", false, halvesHelp)
	f.StringVar(&o.NativeDir, "native", "", "folder with the llama.cpp libraries")
	f.StringVar(&o.Guide, "guide", "", "GGUF with which the speed of this computer is measured (default: the bundled one)")
	f.Var(keysFlag{&o.Publishers}, "publisher", publisherHelp)
	return c
}

// bundledModel is the model that comes with Neuron, "" where it is not: beside
// the program, where packages put it, or in a source tree.
func bundledModel() string {
	exe, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(exe); err == nil {
		exe = real
	}
	const name = "guide-q8_0.gguf"
	dir := filepath.Dir(exe)
	for _, path := range []string{
		filepath.Join(dir, name), filepath.Join(dir, "model", name), filepath.Join(dir, "..", "share", "neuron", name),
		filepath.Join(dir, "..", "Resources", name), filepath.Join(dir, "..", "assets", "model", name),
	} {
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return path
		}
	}
	return ""
}
