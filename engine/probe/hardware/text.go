package hardware

import (
	"fmt"
	"strings"

	"neuron/engine/host/network"
	"neuron/engine/localapi"
)

// What a computer can hold: a part of its memory, since the user's programs and
// the memory of conversations need some, and the bytes of a parameter at four to
// five bits with what belongs to it.
const (
	usableShare       = 0.5
	bytesPerParameter = 0.6
)

// Text says it all in a few plain English sentences.
func Text(h *localapi.Hardware) string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	name := h.CPU
	if name == "" {
		name = "processor of unknown make"
	}
	parts := fmt.Sprintf("%s of memory", gigabytes(h.Memory))
	if h.Disk > 0 {
		parts += fmt.Sprintf(", and %s of %s of its disk are free", gigabytes(h.DiskFree), gigabytes(h.Disk))
	}
	say("This computer (%s) has %s %s with %s and %s.", h.System, article(name), name, cores(h), parts)
	gpus := []string{}
	for _, g := range h.GPUs {
		text := g.Name
		if g.Memory > 0 {
			text += fmt.Sprintf(" with %s", gigabytes(g.Memory))
		}
		if !g.Usable {
			text += ", which this version does not use"
		}
		gpus = append(gpus, text)
	}
	switch len(gpus) {
	case 0:
		say("No graphics card was found that could compute.")
	case 1:
		say("Its graphics card is %s.", gpus[0])
	default:
		say("Its graphics cards are %s.", strings.Join(gpus, "; "))
	}
	if b := h.Battery; b != nil {
		where := "runs on its battery"
		if b.OnPower {
			where = "has a battery and is plugged in"
		}
		say("It %s.", where)
	}
	switch h.Network {
	case network.Wired:
		say("It is connected by cable.")
	case network.Wireless:
		say("It is connected by radio.")
	case "metered":
		say("Its connection is paid by volume.")
	case network.None:
		say("It is not connected.")
	}
	if v := h.Speed; v != nil {
		say("With the bundled small model it computed %.0f tokens a second.", v.TokensPerSecond)
	}
	billions := float64(h.Memory) * usableShare / bytesPerParameter / 1e9
	if billions < 1 {
		say("Its memory is small: it can hold single layers of small models.")
	} else {
		say("Half of its memory holds models of about %.0f billion parameters, or that much of a larger one.", billions)
	}
	return strings.Join(out, " ")
}

// article of a make of processors.
func article(name string) string {
	if strings.ContainsRune("AEIOaeio", rune(name[0])) {
		return "an"
	}
	return "a"
}

func cores(h *localapi.Hardware) string {
	switch {
	case h.Cores > 0 && h.Cores != h.Threads:
		return fmt.Sprintf("%s (%d threads)", count(h.Cores, "core"), h.Threads)
	case h.Cores > 0:
		return count(h.Cores, "core")
	}
	return count(h.Threads, "thread")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func gigabytes(n int64) string {
	g := float64(n) / 1e9
	if g < 10 {
		return fmt.Sprintf("%.1f GB", g)
	}
	return fmt.Sprintf("%.0f GB", g)
}
