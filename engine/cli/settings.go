package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// settingsCommand shows the settings of a desktop engine, and changes one.
func settingsCommand() *cobra.Command {
	c := settingsUnder("settings [NAME [VALUE]]", "Show the settings of this computer, or change one", "")
	c.Long = "Show the settings of this computer, or one of them, or change one. Names are like\n" +
		"rules.on_battery; values are on and off, numbers, sizes (500kB, 2MB, 8GB), lists with\n" +
		"commas, or text. none is the value of a limit that is not to be."
	return c
}

// limitsCommand is settings for the limits alone.
func limitsCommand() *cobra.Command {
	c := settingsUnder("limits [NAME [VALUE]]", "Show what sharing may take of this computer, or change it", "limits.")
	c.Long = "Show the most that sharing may take of this computer, or change a limit: threads,\n" +
		"memory_bytes, disk_bytes, keep_free, up_rate, down_rate, day_bytes, sessions, gpus.\n" +
		"Sizes are like 500kB, 2MB or 8GB, rates the same per second; none is no limit."
	return c
}

func settingsUnder(use, short, prefix string) *cobra.Command {
	var asJSON bool
	c := onEngine(use, short, cobra.MaximumNArgs(2), func(c *cobra.Command, client *localapi.Client, args []string) error {
		s, err := client.Settings(c.Context())
		if err != nil {
			return err
		}
		if len(args) == 2 {
			if s, err = withSetting(s, prefix+args[0], args[1]); err != nil {
				return err
			}
			if s, err = client.SetSettings(c.Context(), s); err != nil {
				return err
			}
			if err := saved(c, client); err != nil {
				return err
			}
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), s)
		}
		only := ""
		if len(args) > 0 {
			only = prefix + args[0]
		}
		return showSettings(c.OutOrStdout(), s, prefix, only)
	})
	c.Flags().BoolVar(&asJSON, "json", false, "print all settings as JSON")
	return c
}

// flatten gives the settings by their names; values are those of JSON.
func flatten(s policy.Settings) (map[string]any, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	out := map[string]any{}
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for k, v := range m {
			if sub, ok := v.(map[string]any); ok {
				walk(prefix+k+".", sub)
				continue
			}
			out[prefix+k] = v
		}
	}
	walk("", tree)
	return out, nil
}

func showSettings(out io.Writer, s policy.Settings, prefix, only string) error {
	all, err := flatten(s)
	if err != nil {
		return err
	}
	if _, ok := all[only]; only != "" && !ok {
		return unknownSetting(only)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, prefix) || only != "" && name != only {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", strings.TrimPrefix(name, prefix), settingText(name, all[name]))
	}
	return w.Flush()
}

func unknownSetting(name string) error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "there is no setting %.100q; see: neuron-engine settings", name)
}

// isLimit says that 0 is no limit.
func isLimit(name string) bool { return strings.HasPrefix(name, "limits.") }

func settingText(name string, v any) string {
	switch x := v.(type) {
	case bool:
		if x {
			return "on"
		}
		return "off"
	case json.Number:
		if isLimit(name) && x == "0" {
			return "none"
		}
		return x.String()
	case []any:
		parts := make([]string, len(x))
		for i, p := range x {
			parts[i] = fmt.Sprint(p)
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v)
}

// withSetting is s with one value changed. The engine checks the result.
func withSetting(s policy.Settings, name, value string) (policy.Settings, error) {
	all, err := flatten(s)
	if err != nil {
		return s, err
	}
	switch name {
	case "form", "revision":
		return s, protocol.Errorf(protocol.CodeInvalidRequest, "%s cannot be set", name)
	case "pause.until", "pause.until_resumed":
		return s, protocol.Errorf(protocol.CodeInvalidRequest, "see: neuron-engine pause, neuron-engine resume")
	}
	old, ok := all[name]
	if !ok {
		return s, unknownSetting(name)
	}
	v, err := settingValue(name, old, value)
	if err != nil {
		return s, err
	}
	// The change alone, in the settings' own form, over what is in force.
	keys := strings.Split(name, ".")
	for i := len(keys) - 1; i >= 0; i-- {
		v = map[string]any{keys[i]: v}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return s, err
	}
	s = s.Clone()
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, protocol.Errorf(protocol.CodeInvalidRequest, "%s cannot be %.100q", name, value)
	}
	return s, nil
}

// settingValue reads a value of the kind that is there.
func settingValue(name string, old any, value string) (any, error) {
	wrong := protocol.Errorf(protocol.CodeInvalidRequest, "%s cannot be %.100q", name, value)
	switch was := old.(type) {
	case bool:
		switch value {
		case "on", "true", "yes":
			return true, nil
		case "off", "false", "no":
			return false, nil
		}
		return nil, wrong
	case json.Number:
		if isLimit(name) && value == "none" {
			return 0, nil
		}
		n, ok := parseSize(value)
		if !ok {
			return nil, wrong
		}
		return n, nil
	case []any:
		list := []any{}
		for part := range strings.SplitSeq(value, ",") {
			part = strings.TrimSpace(part)
			if len(was) > 0 && part != "" {
				if _, number := was[0].(json.Number); number {
					n, err := strconv.ParseUint(part, 0, 32)
					if err != nil {
						return nil, wrong
					}
					list = append(list, n)
					continue
				}
			}
			if part != "" && value != "none" {
				list = append(list, part)
			}
		}
		return list, nil
	}
	return value, nil
}

// units are those of sizes, in powers of ten, and of two with an i.
var units = map[string]int64{
	"": 1, "b": 1, "k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9, "t": 1e12, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// parseSize reads a number, or a size with a unit, which may be per second.
func parseSize(s string) (int64, bool) {
	s = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "/s")
	digits := strings.TrimRight(s, "abgikmt ")
	unit, ok := units[strings.TrimSpace(s[len(digits):])]
	if !ok {
		return 0, false
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		if n > (1<<62)/unit || n < -(1<<62)/unit {
			return 0, false
		}
		return n * unit, true
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || f < 0 || f*float64(unit) >= 1<<62 || strings.ContainsAny(digits, "xXpPeEnN_") {
		return 0, false
	}
	return int64(f * float64(unit)), true
}
