package server

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/operator"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
	"neuron/tracker-server/web/browsertest"
)

// decided is a network with all that the operator's pages can show.
func decided(t *testing.T) (tr *tracker, paths map[string]string) {
	t.Helper()
	folder := t.TempDir()
	raw, err := os.ReadFile("../../assets/model/guide-q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "a-model-with-quite-a-long-name-q8_0.gguf"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	tr = startWith(t, &clock{}, Options{Data: t.TempDir(), Admission: standing.Approve, PublishFrom: []string{folder}, StartingCredit: 100_000_000_000})
	m := tr.publishGuide(false)
	var nodes []*fake
	for i := range 8 {
		f := tr.join(newKey(), protocol.RoleNode)
		f.shard(m, protocol.ShardReady, i%2*2, m.Layers, nil)
		nodes = append(nodes, f)
	}
	tr.join(newKey(), protocol.RoleGateway)
	account := tr.own(nodes[1].key, newKey())
	for _, f := range nodes[:5] {
		tr.stand(f.id(), "approve", "known from the fair")
	}
	tr.stand(nodes[2].id(), "drain", "gets a new disk, until Monday")
	tr.stand(nodes[3].id(), "ban", `signed for layers that it does not have "><b>`+strings.Repeat("verylongword", 20))
	proof := store.Proof{Kind: "double_billing", Culprit: nodes[1].id(), Session: protocol.NewSessionID(), File: []byte("x"), Found: tr.clock.Now(), Owner: account,
		Text: "billed positions [32,64) and [40,72) in spans 2 and 3"}
	proof.ID[0] = 7
	if err := tr.core.store.AddReceipts(t.Context(), nil, []store.Proof{proof}); err != nil {
		t.Fatal(err)
	}
	owner := "/accounts/" + string(account)
	tr.must("POST", owner+"/grant", map[string]any{"amount": 12_345_678, "note": "for the demo"}, nil)
	tr.must("POST", owner+"/freeze", map[string]any{"proof": proof.ID.String(), "reason": "proven"}, nil)
	for i, k := range []string{"laptop", "server in the cellar"} {
		tr.must("POST", owner+"/keys", map[string]any{"name": k, "budget": 900_000_000, "per_minute": 60 * i}, nil)
	}
	for i := range 3 {
		tr.must("POST", "/accounts", map[string]any{"name": fmt.Sprint("client ", i, strings.Repeat(" of a long name", i*5))}, nil)
	}
	tr.must("POST", "/prices", map[string]any{"decode_per_mib": 1200}, nil)
	return tr, map[string]string{
		"home": "/operator/", "nodes": "/operator/nodes", "node": "/operator/nodes/" + string(nodes[1].id()), "banned": "/operator/nodes/" + string(nodes[3].id()),
		"models": "/operator/models", "accounts": "/operator/accounts", "account": "/operator/accounts/" + string(account),
		"prices": "/operator/prices", "settings": "/operator/settings", "log": "/operator/log", "audits": "/operator/audits",
	}
}

// TestOperatorLooks opens the area in a browser without JavaScript, logs in by
// the form, and looks at all pages at two widths and in both themes: nothing may
// stick out or break the policy. NEURON_SCREENSHOTS=FOLDER writes what it sees.
func TestOperatorLooks(t *testing.T) {
	b := browsertest.Start(t)
	tr, paths := decided(t)
	key, err := operator.ReadKey(tr.dir)
	if err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(tr.URL(), "/")
	look := func(p *browsertest.Page, name string, width int, theme string) {
		t.Helper()
		var over int
		p.Eval("document.documentElement.scrollWidth - innerWidth", &over)
		if over > 0 {
			t.Errorf("%s at %d: %d pixels too wide", name, width, over)
		}
		var headings int
		p.Eval("[...document.querySelectorAll('main h1')].filter(h => h.innerText.trim()).length", &headings)
		if headings != 1 {
			t.Errorf("%s has %d headings", name, headings) // a page that the frame does not know is empty
		}
		if list := p.Troubles(); len(list) > 0 {
			t.Errorf("%s: %q", name, list)
		}
		var ground string
		p.Eval("getComputedStyle(document.body).backgroundColor", &ground)
		if ground == "rgba(0, 0, 0, 0)" {
			t.Errorf("%s has no style", name)
		}
		p.Shot(fmt.Sprintf("operator-%s-%d-%s", name, width, theme))
	}
	p := b.Open(base+"/operator/nodes", browsertest.View{Width: 360, Height: 780, NoScript: true})
	look(p, "login", 360, "light")
	p.Eval(fmt.Sprintf(`document.querySelector("[name=key]").value = %q; document.querySelector("[name=name]").value = "Ada"; document.querySelector("main form").requestSubmit()`, key.Reveal()), nil)
	p.Wait(`document.querySelector("h1") && document.querySelector("h1").innerText === "Nodes"`)
	p.Close()
	for _, width := range []int{360, 1400} {
		for _, theme := range []string{"light", "dark"} {
			for name, path := range paths {
				if theme == "dark" && name != "account" && name != "node" {
					continue
				}
				p := b.Open(base+path, browsertest.View{Width: width, Height: 900, Dark: theme == "dark", NoScript: true})
				look(p, name, width, theme)
				p.Close()
			}
		}
	}
	// A decision by its button, as a person makes it.
	p = b.Open(base+paths["node"], browsertest.View{Width: 1400, Height: 900, NoScript: true})
	p.Eval(`(f => { f.querySelector("[name=reason]").value = "by hand"; f.requestSubmit() })(document.querySelector("form[action$='/drain']"))`, nil)
	p.Wait(`document.querySelector(".note") && document.querySelector(".note").innerText.includes("is drained")`)
	p.Close()
	id := protocol.NodeID(paths["node"][len("/operator/nodes/"):])
	if r := tr.core.Standing(standing.Node(id)); !r.Drained.Set() || r.Drained.Reason != "by hand" || !strings.HasPrefix(r.Drained.By, "Ada, browser") || time.Since(r.Drained.At) > time.Minute {
		t.Errorf("drained %+v", r.Drained)
	}
}
