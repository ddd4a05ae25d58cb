package web

import (
	"bufio"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/routing"
	"neuron/tracker-server/telemetry"
)

func get(t *testing.T, s *httptest.Server, path string) (int, http.Header, string) {
	t.Helper()
	resp, err := s.Client().Get(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(raw)
}

// wellFormed reads a page as XML, which our HTML is on purpose: every element
// closed, every attribute quoted, every id used once.
func wellFormed(t *testing.T, name, page string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(page))
	d.Entity = xml.HTMLEntity
	ids := map[string]bool{}
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		el, ok := tok.(xml.StartElement)
		if !ok {
			continue
		}
		if el.Name.Local == "style" || el.Name.Local == "script" && len(el.Attr) == 0 {
			t.Errorf("%s: inline %s", name, el.Name.Local)
		}
		for _, a := range el.Attr {
			if a.Name.Local == "style" || strings.HasPrefix(a.Name.Local, "on") {
				t.Errorf("%s: attribute %s on %s", name, a.Name.Local, el.Name.Local)
			}
			if a.Name.Local == "id" {
				if ids[a.Value] {
					t.Errorf("%s: id %s twice", name, a.Value)
				}
				ids[a.Value] = true
			}
		}
	}
}

var allPages = []string{"/", "/nodes", "/nodes?state=ready", "/models", "/sessions", "/route", "/route?model=x&context=100", "/sessions/" + string(sessionID(0)), "/nothing"}

// TestPages: all pages of all states are well-formed, hold nothing inline, and
// show what strangers say as text.
func TestPages(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]*network{"empty": {}, "full": full(), "hostile": hostile()} {
		s := serve(t, n)
		for _, path := range allPages {
			req, _ := http.NewRequest(http.MethodGet, s.URL+path, nil)
			req.Header.Set("Accept", "text/html")
			resp, err := s.Client().Do(req)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			page := string(raw)
			wellFormed(t, name+path, page)
			if strings.Contains(page, "<script>") || strings.Contains(page, "</style>") {
				t.Errorf("%s%s: a stranger's markup", name, path)
			}
			if got := resp.Header.Get("Content-Security-Policy"); got != pagePolicy {
				t.Errorf("%s%s: policy %q", name, path, got)
			}
			if len(page) > 300<<10 {
				t.Errorf("%s%s: %d bytes", name, path, len(page))
			}
		}
	}
	for _, bad := range []string{"unsafe", "nonce-", "*", "http"} {
		if strings.Contains(pagePolicy, bad) {
			t.Errorf("the policy holds %q", bad)
		}
	}
}

// TestSummary: the summary says in words what the network has and lacks.
func TestSummary(t *testing.T) {
	t.Parallel()
	s := serve(t, full())
	_, _, page := get(t, s, "/")
	for _, want := range []string{
		"Missing: layers 12–14, 33 (4 of 43).", "Each layer is on 1 to 4 ready nodes.", "layers 12–14: none", "▲ the slow hop", "hop_lost", "disk_full",
		"2 of qwen3.5-27b-q4_k_m in <b>decode</b>", "owner <code>", "<title id=\"chart-tokens-t\">Tokens generated, in tokens/s</title>", "stage time 22.0 ms",
		"no report for 13 s", "prompt 640 of 6,100", "What helps:",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	_, _, page = get(t, serve(t, &network{}), "/")
	for _, want := range []string{"No model is published", "No node is connected", "No session yet", "No figures yet"} {
		if !strings.Contains(page, want) {
			t.Errorf("the empty page does not say %q", want)
		}
	}
}

// TestThousands: ten thousand nodes and hundreds of models make no large page,
// and the network is not listed again for each reader.
func TestThousands(t *testing.T) {
	t.Parallel()
	n := full()
	for i := range 10_000 {
		n.nodes = append(n.nodes, node(100+i, registry.StateReady, n.catalog[1], i%3*20, i%3*20+24, 20_000))
		n.nodes[len(n.nodes)-1].Node = protocol.NodeID(strings.Repeat("a", 40) + strconv.Itoa(100_000_000_000+i))
	}
	for i := range 300 {
		n.catalog = append(n.catalog, published(10+i, "model "+strconv.Itoa(i), "llama", 4096, 1<<30, counts(2, 80)))
	}
	s := serve(t, n)
	_, _, page := get(t, s, "/")
	if len(page) > 300<<10 {
		t.Errorf("a summary of %d bytes", len(page))
	}
	for _, want := range []string{"10,018", "279 more models", "10,000 more nodes"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	n.mu.Lock()
	before := n.looked
	n.mu.Unlock()
	for range 20 {
		get(t, s, "/nodes?page=100")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if looked := n.looked - before; looked > 5 {
		t.Errorf("%d looks at the network for 20 pages", looked)
	}
}

func TestSheets(t *testing.T) {
	t.Parallel()
	n := &network{}
	for i := range 250 {
		state := registry.StateReady
		if i >= 210 {
			state = registry.StateDraining
		}
		v := node(i, state, published(0, "m", "llama", 1, 1, counts(1, 4)), 0, 4, 1)
		v.Node = protocol.NodeID(strings.Repeat("b", 49) + strconv.Itoa(100+i))
		n.nodes = append(n.nodes, v)
	}
	s := serve(t, n)
	for path, want := range map[string][]string{
		"/nodes":                       {"1 to 100 of 250", "page 1 of 3", `href="/nodes?page=2"`},
		"/nodes?page=3":                {"201 to 250 of 250", `href="/nodes?page=2"`},
		"/nodes?state=draining":        {"1 to 40 of 40"},
		"/nodes?state=ready&page=2":    {"101 to 200 of 210", `href="/nodes?state=ready&amp;page=3"`},
		"/nodes?page=4":                {"there are 3 pages"},
		"/nodes?page=-1":               {"pages count from 1"},
		"/nodes?page=9999999999999999": {"there are 3 pages"},
		"/nodes?state=%3Cb%3E":         {"no such state"},
	} {
		_, _, page := get(t, s, path)
		for _, w := range want {
			if !strings.Contains(page, w) {
				t.Errorf("%s does not say %q", path, w)
			}
		}
	}
}

func TestTheme(t *testing.T) {
	t.Parallel()
	s := serve(t, &network{})
	c := s.Client()
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, want := range map[string]string{
		"/theme?to=dark&back=/nodes": "/nodes", "/theme?to=light&back=//evil.example/": "/", "/theme?to=dark&back=https://evil.example/": "/",
		"/theme?to=dark&back=%2F%5Cevil.example": "/", "/theme?to=auto": "/",
	} {
		resp, err := c.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusSeeOther || resp.Header.Get("Location") != want || resp.Header.Get("Set-Cookie") == "" {
			t.Errorf("%s: %d to %q", path, resp.StatusCode, resp.Header.Get("Location"))
		}
	}
	if status, _, _ := get(t, s, "/theme?to=pink"); status != http.StatusBadRequest {
		t.Errorf("pink: %d", status)
	}
	req, _ := http.NewRequest(http.MethodGet, s.URL+"/", nil)
	req.AddCookie(&http.Cookie{Name: themeCookie, Value: "dark"})
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, _ := io.ReadAll(resp.Body); !strings.Contains(string(raw), `data-theme="dark"`) {
		t.Error("the cookie is not followed")
	}
}

// TestContrast computes the contrast of all text colours on both grounds.
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("assets/status.css")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile(`(?s)(:root|html\[data-theme=\w+\])\{(color-scheme.*?)\}`).FindAllStringSubmatch(string(css), -1)
	if len(blocks) != 3 || blocks[1][2] != blocks[2][2] {
		t.Fatalf("%d blocks of colours; the two dark ones have to be equal", len(blocks))
	}
	for _, b := range blocks[:2] {
		colors := map[string]float64{}
		for _, m := range regexp.MustCompile(`--([\w-]+):#([0-9a-f]{6})\b`).FindAllStringSubmatch(b[2], -1) {
			n, _ := strconv.ParseUint(m[2], 16, 32)
			lum := 0.0
			for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
				c := float64(n>>(16-8*i)&255) / 255
				if c <= 0.04045 {
					c /= 12.92
				} else {
					c = math.Pow((c+0.055)/1.055, 2.4)
				}
				lum += weight * c
			}
			colors[m[1]] = lum
		}
		check := func(fg, bg string, least float64) {
			a, ok1 := colors[fg]
			b, ok2 := colors[bg]
			if !ok1 || !ok2 {
				t.Fatalf("no colour %s or %s", fg, bg)
			}
			if r := (max(a, b) + 0.05) / (min(a, b) + 0.05); r < least {
				t.Errorf("%s on %s: %.2f, want %.1f", fg, bg, r, least)
			}
		}
		for _, fg := range []string{"ink", "muted", "accent", "good", "warn", "bad"} {
			check(fg, "card", 4.5)
			check(fg, "ground", 4.5)
		}
		check("on-accent", "accent", 4.5)
		check("l4", "card", 3)
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for want, replicas := range map[string][]int{
		"Each layer is on 1 ready node.":                             {1, 1},
		"Each layer is on 1 to 2 ready nodes.":                       {1, 2},
		"Missing: layers 1–2, 4 (3 of 5). No ready node holds them.": {1, 0, 0, 1, 0},
		"No ready node holds any of the 3 layers.":                   {0, 0, 0},
		"No figures about layers yet.":                               {},
	} {
		if got := coverageWords(replicas); got != want {
			t.Errorf("%v: %q, want %q", replicas, got, want)
		}
	}
	many := counts()
	for range 20 {
		many = append(many, 0, 1)
	}
	if got := coverageWords(many); !strings.Contains(got, "12 more ranges (20 of 40)") {
		t.Errorf("many holes: %q", got)
	}
	for got, want := range map[string]string{
		count(1234567): "1,234,567", count(-1234): "-1,234", count(12): "12", plural(1, "node"): "1 node", millis(0): "–", millis(400): "0.40 ms", millis(61_300): "61 ms",
		credits(1_500_000): "1.500", credits(2_000_000_000): "2,000", showBytes(3 << 40): "3.0 TiB", short(0.25): "0.25", short(12_500): "12.5k", short(3e6): "3M",
		layers(protocol.Range{First: 3, Last: 4}): "layer 3", shortOwner("owner:abcdefghijkl"): "abcdefgh", shortOwner(""): "",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for v, want := range map[float64]float64{0: 1, 0.3: 0.5, 1: 1, 7: 10, 21: 25, 410: 500} {
		if got := nice(v); got != want {
			t.Errorf("nice(%g) = %g", v, got)
		}
	}
}

// TestStrip: holes differ from thin cover by shape, and many layers share
// columns without hiding a hole.
func TestStrip(t *testing.T) {
	t.Parallel()
	text := string(strip([]int{1, 0, 0, 9}))
	for _, want := range []string{"layer 0: 1; layers 1–2: none; layer 3: 9", `class="l0" d="M11 1h18v34h-18zM11 1l18 34`, `class="l4"`} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	big := counts(3, 999)
	big[500] = 0
	if text := string(strip(big)); !strings.Contains(text, `class="l0"`) || !strings.Contains(text, "each column stands for 8 layers") || len(text) > 8000 {
		t.Errorf("a large model: %d bytes, %.300s", len(text), text)
	}
	if strip(nil) != "" {
		t.Error("a strip without layers")
	}
}

// TestEvents: a viewer gets what changed, and only that; a reconnecting one
// what it missed.
func TestEvents(t *testing.T) {
	t.Parallel()
	n := full()
	s := serve(t, n)
	_, _, page := get(t, s, "/")
	since := regexp.MustCompile(`data-since="([^"]+)"`).FindStringSubmatch(page)[1]
	events := watch(t, s, "/events?since="+since)
	n.change(func(n *network) {
		n.nodes[0].Host = "a new computer"
		n.sessions = n.sessions[1:]
	})
	id, u := events.next()
	if len(u.Lists["sessions"]) == 0 || u.Lists["models"] != nil || u.Lists["nodes"] != nil {
		t.Errorf("lists %v", u.Lists)
	}
	for key := range u.Set {
		if key != "figures" && key != "n-node-"+string(nodeID(0)) && key != "health" && key != "sessions-note" {
			t.Errorf("%s came and did not change", key)
		}
	}
	if !strings.Contains(u.Set["n-node-"+string(nodeID(0))], "a new computer") {
		t.Errorf("the node's row did not come: %v", u.Set)
	}
	if id == since {
		t.Error("the generation did not grow")
	}
	// Who knows another process's generation gets all.
	if _, u := watch(t, s, "/events?since=ffff-7").next(); len(u.Set) < 20 || len(u.Lists) != 3 {
		t.Errorf("a stranger got %d parts, %d lists", len(u.Set), len(u.Lists))
	}
}

type stream struct {
	t    *testing.T
	body *bufio.Reader
}

func watch(t *testing.T, s *httptest.Server, path string) *stream {
	t.Helper()
	resp, err := s.Client().Get(s.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("status %d, %s", resp.StatusCode, resp.Header.Get("Content-Type"))
	}
	return &stream{t, bufio.NewReader(resp.Body)}
}

func (s *stream) next() (id string, u update) {
	s.t.Helper()
	for {
		line, err := s.body.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if rest, ok := strings.CutPrefix(line, "id: "); ok {
			id = strings.TrimSpace(rest)
		}
		if rest, ok := strings.CutPrefix(line, "data: "); ok {
			if err := json.Unmarshal([]byte(rest), &u); err != nil {
				s.t.Fatal(err)
			}
			return id, u
		}
	}
}

// TestViewersAreBounded: too many viewers, and too many of one address, are
// refused; who leaves makes room.
func TestViewersAreBounded(t *testing.T) {
	t.Parallel()
	b := newBoard(&network{}, func() time.Time { return t0 })
	ip := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 0, byte(i / 256), byte(i)}) }
	for range maxStreamsPerAddress {
		if err := b.enter(ip(0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.enter(ip(0)); !errors.Is(err, &protocol.Error{Code: protocol.CodeRateLimited}) {
		t.Errorf("one more of an address: %v", err)
	}
	for i := range maxStreams - maxStreamsPerAddress {
		if err := b.enter(ip(1 + i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.enter(ip(999)); !errors.Is(err, &protocol.Error{Code: protocol.CodeUnavailable}) {
		t.Errorf("one more: %v", err)
	}
	b.leave(ip(0))
	if err := b.enter(ip(999)); err != nil {
		t.Error(err)
	}
	if got := b.streams(); got != maxStreams {
		t.Errorf("%d viewers", got)
	}
}

func TestAPI(t *testing.T) {
	t.Parallel()
	n := full()
	n.history = &telemetry.History{Session: sessionID(0), Phases: []telemetry.PhaseAt{{Phase: protocol.PhaseDecode, At: t0}}, Samples: []telemetry.Sample{}}
	n.route = &routing.Explanation{Route: &routing.Route{Name: "guide", StepMicros: 1200, Hops: []routing.Hop{{Node: nodeID(1), Use: protocol.Range{Last: 4}, Cost: routing.Cost{Stage: 1100}}}}, Why: "cheapest of all chains over 3 shards"}
	s := serve(t, n)
	for path, want := range map[string]int{
		"/v1/figures": 200, "/v1/figures?since=24h&step=10m": 200, "/v1/figures?since=2026-03-14T00:00:00Z": 200, "/v1/figures?since=yesterday": 400,
		"/v1/figures?since=-3h": 400, "/v1/figures?step=x": 400, "/v1/health": 200, "/v1/sessions/" + string(sessionID(0)) + "/telemetry": 200,
		"/v1/sessions/s-1/telemetry": 400, "/v1/routes/explain?model=guide": 200, "/v1/routes/explain?model=": 400, "/v1/routes/explain?model=g&context=x": 400,
		"/v1/routes/explain?model=g&context=5&prompt=9": 400, "/v1/routes/explain?model=g&node=zz": 400, "/v1/routes/explain?model=g&gateway=zz": 400,
		"/assets/status.css": 200, "/assets/parts.html": 404, "/assets/..%2fweb.go": 404, "/nope": 404, "/sessions/s-1": 400,
	} {
		if status, _, body := get(t, s, path); status != want {
			t.Errorf("%s: %d, want %d: %.200s", path, status, want, body)
		}
	}
	var out struct{ Entries []Entry }
	_, _, body := get(t, s, "/v1/health")
	if err := json.Unmarshal([]byte(body), &out); err != nil || len(out.Entries) < 4 || out.Entries[0].Severity != Bad {
		t.Errorf("health %s: %v", body, err)
	}
	_, h, _ := get(t, s, assetURL("status.js"))
	if !strings.Contains(h.Get("Cache-Control"), "immutable") {
		t.Errorf("assets are not kept: %v", h)
	}
	_, _, page := get(t, s, "/route?model=guide&context=4096")
	for _, want := range []string{"cheapest of all chains over 3 shards", "stage time 1.1 ms", "1.20 ms"} {
		if !strings.Contains(page, want) {
			t.Errorf("the route page does not say %q", want)
		}
	}
}
