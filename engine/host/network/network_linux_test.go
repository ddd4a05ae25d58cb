package network

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"context"

	"neuron/engine/host/bus"
	"neuron/engine/host/bus/bustest"
	"neuron/engine/host/source"
)

func TestMeteredByNetworkManager(t *testing.T) {
	d := bustest.Start(t)
	b := bus.At(d.Address)
	defer b.Close()
	s := Metered(b)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := s.Read(ctx); !errors.Is(err, source.ErrNotTold) {
		t.Errorf("without NetworkManager: %v", err)
	}
	const name = "org.freedesktop.NetworkManager"
	p := d.Properties(t, name, "/org/freedesktop/NetworkManager", name, map[string]any{"Metered": uint32(0)})
	for n, want := range []struct{ metered, told bool }{{false, false}, {true, true}, {false, true}, {true, true}, {false, true}, {false, false}} {
		p.SetMust(name, "Metered", uint32(n))
		got, err := s.Read(ctx)
		if got != want.metered || (err == nil) != want.told || err != nil && !errors.Is(err, source.ErrNotTold) {
			t.Errorf("%d: %v, %v", n, got, err)
		}
	}
}

// tree writes files below a root.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

const (
	head  = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	local = "eth0\t0001A8C0\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0\n"
	zero  = "00000000000000000000000000000000"
)

func route(device, metric string) string {
	return device + "\t00000000\t0101A8C0\t0003\t0\t0\t" + metric + "\t00000000\t0\t0\t0\n"
}

func TestKindOfConnection(t *testing.T) {
	t.Parallel()
	const net, routes, routes6 = "sys/class/net/", "proc/net/route", "proc/net/ipv6_route"
	for name, c := range map[string]struct {
		files map[string]string
		want  string
	}{
		"no route":           {map[string]string{routes: head + local}, None},
		"by cable":           {map[string]string{routes: head + route("eth0", "100") + local, net + "eth0/device/x": ""}, Wired},
		"by radio":           {map[string]string{routes: head + route("wlan0", "600"), net + "wlan0/wireless/x": ""}, Wireless},
		"newer radio driver": {map[string]string{routes: head + route("wlan0", "600"), net + "wlan0/phy80211/x": ""}, Wireless},
		"both, cable first":  {map[string]string{routes: head + route("wlan0", "600") + route("eth0", "100"), net + "wlan0/wireless/x": "", net + "eth0/device/x": ""}, Wired},
		"IPv6 alone": {map[string]string{
			routes: head, routes6: zero + " 00 " + zero + " 00 fe800000000000000000000000000001 00000064 00000000 00000000 00000003 wlan0\n" + zero + " 00 " + zero + " 00 " + zero + " ffffffff 00000001 00000000 00200200 lo\n",
			net + "wlan0/wireless/x": "",
		}, Wireless},
		"a tunnel over radio": {map[string]string{routes: head + route("tun0", "50"), net + "tun0/tun_flags": "", net + "wlan0/wireless/x": "", net + "wlan0/device/x": "", net + "wlan0/operstate": "up\n", net + "eth0/device/x": "", net + "eth0/operstate": "down\n"}, Wireless},
		"a tunnel over cable": {map[string]string{routes: head + route("wg0", "50"), net + "wg0/x": "", net + "wlan0/wireless/x": "", net + "wlan0/device/x": "", net + "wlan0/operstate": "up\n", net + "eth0/device/x": "", net + "eth0/operstate": "up\n"}, Wired},
		"a lone tunnel":       {map[string]string{routes: head + route("ppp0", "50"), net + "ppp0/x": ""}, Unknown},
	} {
		got, err := Kind(tree(t, c.files)).Read(t.Context())
		if err != nil || got != c.want {
			t.Errorf("%s: %q, %v; want %s", name, got, err, c.want)
		}
	}
	if _, err := Kind(t.TempDir()).Read(t.Context()); err == nil {
		t.Error("an answer without routes")
	}
	if kind, err := Kind("/").Read(t.Context()); err != nil || kind == "" {
		t.Errorf("this computer: %q, %v", kind, err)
	}
}
