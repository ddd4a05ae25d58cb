package server

import (
	"crypto/ed25519"
	"net/http"
	"strings"
	"testing"

	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/internal/signed"
	"neuron/tracker-server/accounts"
	"neuron/tracker-server/store"
)

// TestAccountAPI: the account API of a running tracker. A connected node gets an
// owner, reads the account, and is the owner's from then on; it loses him again;
// after a restart everything is as before, and old requests are not taken.
func TestAccountAPI(t *testing.T) {
	t.Parallel()
	data, c := t.TempDir(), &clock{}
	tr := startWith(t, c, Options{Data: data, StartingCredit: 5_000_000})
	ownerKey, nodeKey := newKey(), newKey()
	public := func(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }
	ask := func(key ed25519.PrivateKey, method, path string, in, out any) {
		t.Helper()
		client := signed.Client{HTTP: http.DefaultClient, Key: key, Audience: tr.Key(), Now: c.Now}
		if err := client.Do(t.Context(), method, strings.TrimSuffix(tr.URL(), "/")+path, in, out); err != nil {
			t.Fatal(err)
		}
	}
	n := tr.join(nodeKey, protocol.RoleNode)
	b := owner.NewBinding(public(nodeKey), public(ownerKey), c.Now())
	b.SignNode(nodeKey)
	b.SignOwner(ownerKey)
	ask(nodeKey, "POST", "/v1/owners/bind", b, nil)
	if got := tr.core.OwnerOf(n.id()); got != string(b.Owner()) {
		t.Errorf("the tracker knows the owner %q", got)
	}
	var a struct {
		Account  owner.ID
		As       string
		Balances map[string]struct{ Credits string }
		Nodes    []struct {
			Connected bool
			Info      struct{ Engine string }
		}
	}
	for i, key := range []ed25519.PrivateKey{nodeKey, ownerKey} {
		ask(key, "GET", "/v1/account", nil, &a)
		if a.Account != b.Owner() || a.As != []string{"node", "owner"}[i] || a.Balances["available"].Credits != "5.000000" || len(a.Nodes) != 1 || !a.Nodes[0].Connected ||
			a.Nodes[0].Info.Engine != "test" {
			t.Errorf("%+v", a)
		}
	}
	var prices struct {
		Now    int64
		Prices []store.Prices
	}
	if status := tr.get("/v1/prices", &prices); status != http.StatusOK || prices.Now != 1 || len(prices.Prices) != 1 {
		t.Errorf("%d %+v", status, prices)
	}

	req, err := http.NewRequest("GET", tr.URL()+"v1/account", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	signed.SignAt(req, nil, ownerKey, tr.Key(), c.Now())
	header := req.Header.Get("Authorization")
	tr.halt()
	tr = startWith(t, c, Options{Data: data, StartingCredit: 5_000_000})
	req, err = http.NewRequest("GET", tr.URL()+"v1/account", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", header)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("a request from before the restart: %s", resp.Status)
	}
	n = tr.join(nodeKey, protocol.RoleNode)
	if n.welcome.Owner != string(b.Owner()) {
		t.Errorf("the welcome names the owner %q", n.welcome.Owner)
	}
	ask(ownerKey, "POST", "/v1/owners/release", owner.SignRelease(public(nodeKey), public(ownerKey), c.Now(), ownerKey), nil)
	if got := tr.core.OwnerOf(n.id()); got != "" {
		t.Errorf("the tracker still knows the owner %q", got)
	}
	a.Nodes = nil
	if ask(ownerKey, "GET", "/v1/account", nil, &a); len(a.Nodes) != 0 || a.Balances["available"].Credits != "5.000000" {
		t.Errorf("%+v", a)
	}
	var keys struct{ Secret string }
	ask(ownerKey, "POST", "/v1/account/keys", map[string]string{"name": "laptop"}, &keys)
	account, id, err := accounts.Payer(t.Context(), tr.core.keys, tr.core.owners, n.id(), keys.Secret)
	if account != store.AccountID(b.Owner()) || !strings.HasPrefix(keys.Secret, id+"-") || err != nil {
		t.Errorf("%s, %s, %v", account, id, err)
	}
	if account, _, err := accounts.Payer(t.Context(), tr.core.keys, tr.core.owners, n.id(), ""); account != "" || err != nil {
		t.Errorf("%s, %v", account, err)
	}
}
