package server

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/anacrolix/torrent/bencode"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
)

// announceQuery is what a client sends, from "?" on.
func announceQuery(m *manifest.Manifest, id string, port, left int) string {
	hash, _ := hex.DecodeString(m.Torrent.InfoHash)
	return "?" + url.Values{
		"info_hash": {string(hash)}, "peer_id": {fmt.Sprintf("%-20s", id)}, "port": {fmt.Sprint(port)}, "left": {fmt.Sprint(left)}, "compact": {"1"},
	}.Encode()
}

type announceAnswer struct {
	Failure  string `bencode:"failure reason"`
	Interval int    `bencode:"interval"`
	Complete int    `bencode:"complete"`
	Partial  int    `bencode:"incomplete"`
	Peers    string `bencode:"peers"`
	Peers6   string `bencode:"peers6"`
}

func (a *announceAnswer) addrs() []string {
	out := []string{}
	for _, list := range []struct {
		raw string
		n   int
	}{{a.Peers, 4}, {a.Peers6, 16}} {
		for p := range slices.Chunk([]byte(list.raw), list.n+2) {
			ip, _ := netip.AddrFromSlice(p[:list.n])
			out = append(out, netip.AddrPortFrom(ip, uint16(p[list.n])<<8|uint16(p[list.n+1])).String())
		}
	}
	slices.Sort(out)
	return out
}

func (tr *tracker) announce(query string) *announceAnswer {
	tr.t.Helper()
	resp, raw := tr.request("GET", "/announce"+query, nil)
	var a announceAnswer
	if err := bencode.Unmarshal(raw, &a); err != nil || resp.StatusCode != 200 || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		tr.t.Fatalf("status %d, %v: %q", resp.StatusCode, err, raw)
	}
	return &a
}

func TestAnnounce(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	m := tr.publishGuide(false)
	if a := tr.announce(announceQuery(m, "seed", 1001, 0)); a.Failure != "" || a.Complete != 1 || a.Interval != 60 || len(a.addrs()) != 0 {
		t.Errorf("first answer %+v", a)
	}
	if a := tr.announce(announceQuery(m, "leech", 1002, 5) + "&ip=127.0.0.2"); !slices.Equal(a.addrs(), []string{"127.0.0.1:1001"}) || a.Partial != 1 {
		t.Errorf("second answer %+v %v", a, a.addrs())
	}
	// A node's own word: its port on the address that it comes from.
	n, stranger := tr.join(newKey(), protocol.RoleNode), tr.join(newKey(), protocol.RoleNode)
	n.shard(m, protocol.ShardDownloading, 0, 1, func(r *protocol.Report) { r.Swarm = "0.0.0.0:1003" })
	stranger.shard(m, protocol.ShardReady, 0, m.Layers, func(r *protocol.Report) { r.Swarm = "203.0.113.9:1004" })
	want := []string{"127.0.0.1:1003", "127.0.0.2:1002"}
	eventually(t, "the node among the peers", func() bool { return slices.Equal(tr.announce(announceQuery(m, "seed", 1001, 0)).addrs(), want) })
	if c := tr.core.Catalog()[0]; c.Seeders != 1 || c.Leechers != 2 {
		t.Errorf("catalog %+v", c)
	}
	_, raw := tr.request("GET", "/scrape"+announceQuery(m, "x", 1, 1), nil)
	if got := string(raw); !strings.Contains(got, "8:completei1e10:downloadedi0e10:incompletei2e") {
		t.Errorf("scrape %q", got)
	}
	// The node announces itself as well: it still counts once.
	tr.announce(announceQuery(m, "node", 1003, 5))
	if c := tr.core.Catalog()[0]; c.Leechers != 2 {
		t.Errorf("a node that announces itself counts %d", c.Leechers)
	}
	stop := tr.announce(announceQuery(m, "leech", 1002, 5) + "&ip=127.0.0.2&event=stopped")
	if stop.Failure != "" || len(stop.addrs()) != 0 || stop.Partial != 1 {
		t.Errorf("stopped: %+v", stop)
	}
	var text string
	tr.get("/metrics", &text)
	for _, want := range []string{`neuron_tracker_announces_total{kind="announce",result="ok"}`, "neuron_tracker_announced_peers 2", "neuron_tracker_catalog_models 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("metrics have no %s", want)
		}
	}
	if err := tr.store.Unpublish(t.Context(), m.Model); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the torrent is gone", func() bool { return tr.announce(announceQuery(m, "seed", 1001, 0)).Failure != "" })
}
