// Package credits is acceptance criterion AC-16: after a real run of three
// nodes, what their owners earned is exactly the layer work that an independent
// script computes from the signed receipts, the client paid exactly that, and
// failed sessions paid nobody. Package acceptance runs it; nothing else imports
// it.
package credits

import (
	"bytes"
	"context"
	"crypto/ed25519"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"neuron/engine/cli/apiclient"
	"neuron/engine/protocol"
	"neuron/internal/identity"
	"neuron/internal/localnet"
	"neuron/internal/signed"
	"neuron/tracker-server/keys"
)

// script computes what is owed; it shares no code with the tracker.
//
//go:embed paid.py
var script []byte

// ranges are the layers of the three nodes; the model has eight.
var ranges = []string{"0-3", "3-6", "6-8"}

const (
	starting = 1_000_000_000 // micro-credits of each owner at its start
	settled  = 90 * time.Second
)

// account is what the criterion reads of GET /v1/account.
type account struct {
	Account  string `json:"account"`
	Balances map[string]struct {
		Micros int64 `json:"micros"`
	} `json:"balances"`
}

// total is all that the account has.
func (a *account) total() (n int64) {
	for _, b := range a.Balances {
		n += b.Micros
	}
	return n
}

// owed is what the script prints.
type owed struct {
	Owners   map[protocol.NodeID]int64 `json:"owners"`
	Cost     int64                     `json:"cost"`
	Rows     map[protocol.NodeID]int64 `json:"rows"`
	Receipts int                       `json:"receipts"`
}

// run is one network under the criterion.
type run struct {
	net     *localnet.Net
	tracker ed25519.PublicKey
	model   string // the file
	nodes   []*localnet.Node
	gateway *localnet.Proc
	client  *apiclient.Client
	// sessions that were asked for, by their ids at the tracker.
	sessions []string
}

// Check runs it with the programs in bin, in a folder of its own below data,
// and returns its figure. model is a file that can be cut in three, published
// under name.
func Check(ctx context.Context, bin, data, model, name string) (figure string, err error) {
	r := &run{model: model}
	r.net, err = localnet.Start(ctx, localnet.Options{Bin: bin, Data: filepath.Join(data, "credits"), TrackerArgs: []string{
		"--credit", "required", "--starting-credit", fmt.Sprint(starting / 1_000_000),
	}})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, r.net.Stop()) }()
	if err := r.net.Publish(ctx, model); err != nil {
		return "", err
	}
	key, err := keys.Load(filepath.Join(r.net.Tracker.Data, keys.FileName))
	if err != nil {
		return "", err
	}
	r.tracker = key.Public().(ed25519.PublicKey)
	for i, layers := range ranges {
		n, err := r.net.StartNode(ctx, fmt.Sprintf("earner-%d", i), localnet.NodeOptions{Model: model, Layers: layers})
		if err != nil {
			return "", err
		}
		r.nodes = append(r.nodes, n)
	}
	if err := r.net.WaitCovered(ctx, name, 1, time.Minute); err != nil {
		return "", err
	}
	if r.gateway, err = r.net.StartGateway(ctx, "payer", nil); err != nil {
		return "", err
	}
	end, err := localnet.Endpoint(r.gateway)
	if err != nil {
		return "", err
	}
	r.client = localnet.Client(end)
	return r.check(ctx, name)
}

func (r *run) check(ctx context.Context, name string) (string, error) {
	for _, p := range r.all() {
		if err := until(ctx, settled, "an owner of "+p.Name, func() (bool, error) {
			a, err := r.account(ctx, p)
			return err == nil && a.total() == starting, nil // there is none before the node has bound itself
		}); err != nil {
			return "", err
		}
	}
	if err := r.work(ctx, name); err != nil {
		return "", err
	}
	failed, err := r.fail(ctx, name)
	if err != nil {
		return "", err
	}
	var want *owed
	var have map[string]int64
	err = until(ctx, settled, "all receipts at the tracker, and all credit where it belongs", func() (bool, error) {
		var err error
		if want, err = r.owed(ctx); err != nil {
			return false, err
		}
		if have, err = r.balances(ctx); err != nil {
			return false, err
		}
		return want.Cost > 0 && r.compare(want, have) == nil, nil
	})
	if err != nil {
		if want == nil {
			return "", err
		}
		return "", errors.Join(err, r.compare(want, have))
	}
	rows := int64(0)
	for _, n := range want.Rows {
		rows += n
	}
	return fmt.Sprintf("%d answers and %d failures over three nodes: %d signed receipts, %d rows, %s credits earned and paid, to the micro-credit",
		len(r.sessions)-failed, failed, want.Receipts, rows, credits(want.Cost)), nil
}

func credits(micros int64) string { return fmt.Sprintf("%d.%06d", micros/1_000_000, micros%1_000_000) }

func (r *run) all() []*localnet.Proc {
	out := []*localnet.Proc{r.gateway}
	for _, n := range r.nodes {
		out = append(out, n.Proc)
	}
	return out
}

// account asks the tracker for a process's account, signed with its node's key.
func (r *run) account(ctx context.Context, p *localnet.Proc) (*account, error) {
	id, err := identity.LoadOrCreate(p.Data)
	if err != nil {
		return nil, err
	}
	c := &signed.Client{HTTP: &http.Client{Timeout: 10 * time.Second}, Key: id.PrivateKey(), Audience: r.tracker}
	out := new(account)
	return out, c.Do(ctx, http.MethodGet, r.net.TrackerURL+"/v1/account", nil, out)
}

// balances is what each process's owner has, by the process's name.
func (r *run) balances(ctx context.Context) (map[string]int64, error) {
	out := map[string]int64{}
	for _, p := range r.all() {
		a, err := r.account(ctx, p)
		if err != nil {
			return nil, err
		}
		if a.Balances["held"].Micros != 0 {
			out[p.Name] = -1 // a session has not ended yet
			continue
		}
		// What is reserved of the client's is still its own: it goes back.
		out[p.Name] = a.total()
	}
	return out, nil
}

// compare holds balances against what is owed.
func (r *run) compare(want *owed, have map[string]int64) error {
	var errs []error
	for _, n := range r.nodes {
		if got, owed := have[n.Name]-starting, want.Owners[protocol.NodeID(n.ID)]; got != owed || owed == 0 {
			errs = append(errs, fmt.Errorf("%s earned %d, its receipts are worth %d", n.Name, got, owed))
		}
	}
	if paid := starting - have[r.gateway.Name]; paid != want.Cost {
		errs = append(errs, fmt.Errorf("the client paid %d, its receipts cost %d", paid, want.Cost))
	}
	return errors.Join(errs...)
}

// owed runs the script.
func (r *run) owed(ctx context.Context) (*owed, error) {
	file := filepath.Join(filepath.Dir(r.gateway.Data), "paid.py")
	if err := os.WriteFile(file, script, 0o600); err != nil {
		return nil, fmt.Errorf("the script: %w", err)
	}
	cmd := exec.CommandContext(ctx, "python3", append([]string{file, r.net.TrackerURL}, r.sessions...)...)
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("the script: %w: %s", err, strings.TrimSpace(text.String()))
	}
	o := new(owed)
	if err := json.Unmarshal(out.Bytes(), o); err != nil {
		return nil, fmt.Errorf("the script's answer: %w", err)
	}
	return o, nil
}

func chat(model string, tokens int) apiclient.ChatRequest {
	return apiclient.ChatRequest{Model: model, Messages: []apiclient.Message{{Role: "user", Content: "Tell me of nodes."}}, MaxTokens: tokens, IgnoreEOS: true}
}

// list is the tracker's sessions, the newest lease first.
func (r *run) list(ctx context.Context) ([]string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.net.TrackerURL+"/v1/sessions", http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	defer resp.Body.Close()
	var all struct {
		Sessions []struct {
			Session string `json:"session"`
		} `json:"sessions"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	var out []string
	for _, s := range all.Sessions {
		out = append(out, s.Session)
	}
	return out, nil
}

// work asks for answers: short and long, of prompts below and above a chunk,
// one that its client leaves.
func (r *run) work(ctx context.Context, name string) error {
	for i, c := range []struct{ prompt, tokens int }{{10, 3}, {70, 40}, {300, 100}, {5, 1}, {600, 70}} {
		ids := make([]int32, c.prompt)
		for j := range ids {
			ids[j] = int32(100 + (j*7+i)%300)
		}
		body := map[string]any{"model": name, "prompt": ids, "max_tokens": c.tokens, "temperature": 0, "ignore_eos": true}
		if _, err := r.client.JSON(ctx, http.MethodPost, "/completions", body, &struct{}{}); err != nil {
			return fmt.Errorf("answer %d: %w", i, err)
		}
	}
	left, cancel := context.WithCancel(ctx)
	defer cancel()
	tokens := 0
	_, err := r.client.Chat(left, chat(name, 400), func(string) {
		if tokens++; tokens == 20 {
			cancel()
		}
	})
	if err == nil {
		return fmt.Errorf("an answer that its client left is complete after %d tokens", tokens)
	}
	r.sessions, err = r.list(ctx)
	return err
}

// fail kills the middle node in the middle of an answer, and brings it back. It
// returns how many sessions failed.
func (r *run) fail(ctx context.Context, name string) (int, error) {
	tokens := 0
	var kill error
	_, err := r.client.Chat(ctx, chat(name, 1500), func(string) {
		if tokens++; tokens == 40 {
			kill = r.net.Kill(r.nodes[1].Proc)
		}
	})
	if kill != nil {
		return 0, kill
	}
	if err == nil {
		return 0, errors.New("an answer is complete though a hop died")
	}
	n, err := r.net.StartNode(ctx, r.nodes[1].Name, localnet.NodeOptions{Model: r.model, Layers: ranges[1]})
	if err != nil {
		return 0, err
	}
	r.nodes[1] = n
	all, err := r.list(ctx)
	if err != nil {
		return 0, err
	}
	failed := 0
	for _, s := range all {
		if !slices.Contains(r.sessions, s) {
			failed++
		}
	}
	if failed == 0 {
		return 0, errors.New("the tracker does not know the failed session")
	}
	r.sessions = all
	return failed, nil
}

func until(ctx context.Context, within time.Duration, what string, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	t := time.NewTicker(250 * time.Millisecond)
	defer t.Stop()
	for {
		done, err := ok()
		if done || err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return fmt.Errorf("not within %s: %s", within, what)
		}
	}
}
