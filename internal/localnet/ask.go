package localnet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"neuron/engine/cli/apiclient"
	"neuron/engine/localapi"
	"neuron/engine/program"
	"neuron/engine/protocol"
)

// Endpoint says how to reach a gateway that StartGateway started.
func Endpoint(gateway *Proc) (program.Endpoint, error) { return program.ReadEndpoint(gateway.Data) }

// Client is a client of a gateway's API.
func Client(e program.Endpoint) *apiclient.Client { return apiclient.New(e.URL, e.Key) }

// WaitAccess waits until the gateway of a desktop engine answers.
func WaitAccess(ctx context.Context, desktop *Proc, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	client, err := localapi.Dial(desktop.Data)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		if _, err = client.Access(ctx); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the desktop engine has no gateway after %s: %w", within, err)
		case <-time.After(poll):
		}
	}
}

// poll is how often a condition is looked at.
const poll = 50 * time.Millisecond

// WaitRoute waits until the tracker has a route for the model and returns its
// entry; why names what is missing when the time is over.
func (n *Net) WaitRoute(ctx context.Context, model string, within time.Duration) (*protocol.ModelInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var last error
	for {
		var list struct {
			Models []protocol.ModelInfo `json:"models"`
		}
		if last = JSON(ctx, n.TrackerURL+"/v1/models", &list); last == nil {
			last = fmt.Errorf("the model is not known to the tracker")
			for i := range list.Models {
				if m := &list.Models[i]; m.Name == model || string(m.Model) == model {
					if m.Routable {
						return m, nil
					}
					last = fmt.Errorf("nodes per layer: %v", m.Replicas)
				}
			}
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("no route for %s after %s: %w", model, within, last)
		case p := <-n.died:
			return nil, errors.New(p.Describe())
		case <-time.After(poll):
		}
	}
}

// WaitCovered waits until every layer is held by exactly want ready nodes.
func (n *Net) WaitCovered(ctx context.Context, model string, want int, within time.Duration) error {
	deadline := time.Now().Add(within)
	for {
		m, err := n.WaitRoute(ctx, model, time.Until(deadline))
		if err != nil {
			return err
		}
		even := true
		for _, r := range m.Replicas {
			even = even && r == want
		}
		if even {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("nodes per layer of %s: %v, want %d", model, m.Replicas, want)
		}
		time.Sleep(poll)
	}
}

// catalogTime is how long the tracker may take to see what was published.
const catalogTime = 15 * time.Second

func (n *Net) waitCatalog(ctx context.Context, id protocol.ModelID) error {
	ctx, cancel := context.WithTimeout(ctx, catalogTime)
	defer cancel()
	for {
		var list protocol.Catalog
		err := JSON(ctx, n.TrackerURL+"/v1/catalog", &list)
		if err == nil && slices.ContainsFunc(list.Models, func(m protocol.CatalogModel) bool { return m.Model == id }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the tracker's catalog does not have %s after %s: %w", id.Short(), catalogTime, errors.Join(context.Cause(ctx), err))
		case <-time.After(poll):
		}
	}
}

// JSON asks for a document, at most 16 MiB of it.
func JSON(ctx context.Context, url string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", url, resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(out)
}
