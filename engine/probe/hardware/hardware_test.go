package hardware

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/host/network"
	"neuron/engine/host/power"
	"neuron/engine/host/source"
	"neuron/engine/localapi"
)

func says[T any](v T) source.Source[T] {
	return source.Func[T]{From: "test", Ask: func(context.Context) (T, error) { return v, nil }}
}

func TestThisComputer(t *testing.T) {
	t.Parallel()
	h, err := Read(t.Context(), Options{
		Data:    filepath.Join(t.TempDir(), "not", "there", "yet"),
		Battery: says(power.State{Battery: true, OnBattery: true, Percent: 80}), Network: says(network.Wireless), Metered: says(false),
	})
	if err != nil {
		t.Fatal(err)
	}
	if h.Threads < 1 || h.Cores > h.Threads || h.Memory < 1<<28 || h.Disk <= 0 || h.DiskFree > h.Disk || h.System == "" || h.Features == nil || h.GPUs == nil {
		t.Errorf("%+v", h)
	}
	if b := h.Battery; b == nil || b.Percent != 80 || b.OnPower || b.Charging {
		t.Errorf("battery %+v", b)
	}
	if h.Network != network.Wireless {
		t.Errorf("network %q", h.Network)
	}
	t.Log(Text(h))
}

func TestWhatIsNotToldIsUnknown(t *testing.T) {
	t.Parallel()
	h, err := Read(t.Context(), Options{Data: t.TempDir(), Battery: source.None[power.State]("no"), Network: source.None[string]("no")})
	if err != nil {
		t.Fatal(err)
	}
	if h.Battery != nil || h.Network != network.Unknown {
		t.Errorf("%+v", h)
	}
	h, err = Read(t.Context(), Options{Data: t.TempDir(), Battery: says(power.State{Percent: -1}), Network: says(network.Wired), Metered: says(true)})
	if err != nil {
		t.Fatal(err)
	}
	if h.Battery != nil || h.Network != "metered" {
		t.Errorf("%+v", h)
	}
}

func TestPlainCPU(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Intel(R) Core(TM) i7-8550U CPU @ 1.80GHz": "Intel Core i7-8550U", "AMD Ryzen 7 5800X 8-Core Processor": "AMD Ryzen 7 5800X 8-Core", "Apple M2": "Apple M2", "": "",
	} {
		if got := plainCPU(in); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}

func TestSystemNames(t *testing.T) {
	t.Parallel()
	if got := prettyName("NAME=\"x\"\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"); got != "Debian GNU/Linux 12 (bookworm)" {
		t.Errorf("%q", got)
	}
	if got := prettyName("PRETTY_NAME=" + strings.Repeat("x", 200)); got != "" {
		t.Errorf("%q", got)
	}
	for want, in := range map[string][2]string{"macOS 14.5": {"darwin", "14.5"}, "Windows 11 Pro": {"Microsoft Windows 11 Pro", "10.0.22631"}, "freebsd 14": {"freebsd", "14"}} {
		if got := systemName(in[0], in[1]); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	h := &localapi.Hardware{
		CPU: "AMD Ryzen 7 5800X 8-Core", Cores: 8, Threads: 16, Memory: 32e9, Disk: 1e12, DiskFree: 250e9, System: "Debian GNU/Linux 12 (bookworm)", Network: "wired",
		GPUs: []localapi.GPU{{Name: "NVIDIA GeForce RTX 3060", Kind: "Vulkan", Memory: 12e9, Usable: true}}, Speed: &localapi.Speed{TokensPerSecond: 512.4},
	}
	want := "This computer (Debian GNU/Linux 12 (bookworm)) has an AMD Ryzen 7 5800X 8-Core with 8 cores (16 threads) and 32 GB of memory, and 250 GB of 1000 GB of its disk are free. " +
		"Its graphics card is NVIDIA GeForce RTX 3060 with 12 GB. It is connected by cable. With the bundled small model it computed 512 tokens a second. " +
		"Half of its memory holds models of about 27 billion parameters, or that much of a larger one."
	if got := Text(h); got != want {
		t.Errorf("%s", got)
	}
	small := &localapi.Hardware{Threads: 1, Memory: 1e9, System: "Linux", Network: "none", Battery: &localapi.Battery{OnPower: true}}
	want = "This computer (Linux) has a processor of unknown make with 1 thread and 1.0 GB of memory. No graphics card was found that could compute. " +
		"It has a battery and is plugged in. It is not connected. Its memory is small: it can hold single layers of small models."
	if got := Text(small); got != want {
		t.Errorf("%s", got)
	}
}
