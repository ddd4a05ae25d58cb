package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/peterbourgon/ff/v3"
)

// envPrefix is what the variables of all settings begin with: --tls-cert is
// NEURON_TRACKER_TLS_CERT.
const envPrefix = "NEURON_TRACKER"

// configFlag names the file with settings.
const configFlag = "config"

// settings fills in what the command line does not give: from the environment,
// then from the file that --config names, one "name value" per line. A setting
// that does not exist, or a value that is none, is an error and not a surprise.
func settings(flags *flag.FlagSet) error {
	// Parsing nothing keeps what was parsed before.
	err := ff.Parse(flags, nil, ff.WithEnvVarPrefix(envPrefix), ff.WithConfigFileFlag(configFlag), ff.WithConfigFileParser(ff.PlainParser))
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return err
	}
	return &usageError{err.Error()}
}

// configCommand prints a configuration file with all settings, their meaning
// and their defaults.
func configCommand(*flag.FlagSet) runner {
	return func(_ context.Context, _ []string, stdout, _ io.Writer) error {
		_, err := io.WriteString(stdout, sampleConfig())
		return err
	}
}

// sampleConfig is the file that installers bring: every setting of serve, each
// commented out with its default.
func sampleConfig() string {
	var b strings.Builder
	b.WriteString("# Settings of neuron-tracker. Each line is a name and a value; lines that begin with\n" +
		"# '#' are comments: take it away to change a setting. The environment\n" +
		"# (" + envPrefix + "_LISTEN, ...) goes before this file, and the command line\n# (--listen ...) before both.\n")
	flags := flag.NewFlagSet("", flag.ContinueOnError)
	serve(flags)
	flags.VisitAll(func(f *flag.Flag) {
		if f.Name == configFlag {
			return
		}
		placeholder, usage := flag.UnquoteUsage(f)
		value := f.DefValue
		if f.Name == "data" {
			value = "/var/lib/neuron-tracker" // of this file's user, not of who printed it
		}
		if value == "" {
			value = placeholder // what stands here is not a value yet
		}
		fmt.Fprintf(&b, "\n# %s\n#%s %s\n", usage, f.Name, value)
	})
	return b.String()
}
