package desktop

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"neuron/engine/artifact/catalog"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/proxy"
)

// network asks the tracker's read-only pages for its view of the network, at
// most once in networkEvery: several windows may look.
type network struct {
	e    *Engine
	http *http.Client

	mu sync.Mutex // held while asking
	// Protected by mu.
	last *localapi.Network
	of   string // the tracker that last is about
}

const (
	networkEvery = 5 * time.Second
	// maxPage bounds one page, in bytes: thousands of nodes.
	maxPage = 32 << 20
	// maxItems bounds a list.
	maxItems = 100_000
)

func newNetwork(e *Engine) *network {
	return &network{e: e, http: &http.Client{
		Transport:     &http.Transport{Proxy: proxy.For, MaxIdleConns: 2, IdleConnTimeout: 15 * time.Second, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

func (n *network) close() { n.http.CloseIdleConnections() }

func (n *network) get(ctx context.Context) (*localapi.Network, error) {
	tracker := n.e.settings.Get().Tracker
	if tracker == "" {
		return nil, n.e.missing("node")
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.last == nil || n.of != tracker || n.e.o.Now().Sub(n.last.Asked) >= networkEvery {
		ctx, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		out, err := n.ask(ctx, tracker)
		if err != nil {
			return nil, err
		}
		n.last, n.of = out, tracker
	}
	out := *n.last
	// What this computer has to do with it is the newest.
	s := (*source)(n.e)
	out.Tracker = s.Status().Tracker
	out.Name = out.Tracker.Name
	out.Models = append([]localapi.NetworkModel{}, out.Models...)
	for _, m := range s.Models() {
		for i := range out.Models {
			if out.Models[i].Info.Model == m.Info.Model {
				out.Models[i].Local = m.Local
			}
		}
	}
	return &out, nil
}

// ask reads the pages: published models first, then those that nodes hold
// without their being published.
func (n *network) ask(ctx context.Context, tracker string) (*localapi.Network, error) {
	base, err := catalog.BaseURL(tracker)
	if err != nil {
		return nil, err
	}
	out := &localapi.Network{Models: []localapi.NetworkModel{}, Asked: n.e.o.Now()}
	seen := map[protocol.ModelID]bool{}
	err = each(ctx, n.http, base+"/v1/catalog", "models", func(m *protocol.CatalogModel) {
		seen[m.Model] = true
		out.Models = append(out.Models, localapi.NetworkModel{
			Info: protocol.ModelInfo{
				Model: m.Model, Name: m.Name, Architecture: m.Architecture, Layers: m.Layers, Context: m.Context,
				Replicas: m.Replicas, Routable: m.Routable, Seen: out.Asked,
			},
			Bytes: m.Bytes, License: m.License, Private: m.Private,
		})
	})
	if err == nil {
		err = each(ctx, n.http, base+"/v1/models", "models", func(m *protocol.ModelInfo) {
			if !seen[m.Model] {
				out.Models = append(out.Models, localapi.NetworkModel{Info: *m})
			}
		})
	}
	if err == nil {
		err = each(ctx, n.http, base+"/v1/nodes", "nodes", func(x *struct {
			Role protocol.Role `json:"role"`
		}) {
			if x.Role == protocol.RoleNode {
				out.Nodes++
			}
		})
	}
	if err == nil {
		err = each(ctx, n.http, base+"/v1/sessions", "sessions", func(x *struct {
			Phase protocol.Phase `json:"phase"`
		}) {
			if x.Phase != protocol.PhaseDone && x.Phase != protocol.PhaseFailed {
				out.Sessions++
			}
		})
	}
	return out, err
}

// each calls f for the items of the one list of a page, one at a time.
func each[T any](ctx context.Context, client *http.Client, url, list string, f func(*T)) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the tracker's address: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return protocol.Errorf(protocol.CodeUnavailable, "the tracker does not answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return protocol.Errorf(protocol.CodeUnavailable, "the tracker answered with status %d", resp.StatusCode)
	}
	if err := items(io.LimitReader(resp.Body, maxPage), list, f); err != nil {
		return protocol.Errorf(protocol.CodeUnavailable, "the tracker's answer cannot be read: %w", err)
	}
	return nil
}

var errForm = errors.New("it has another form")

// items reads {"list": [item, ...], ...}; what else the object has is skipped.
func items[T any](r io.Reader, list string, f func(*T)) error {
	d := json.NewDecoder(r)
	open := func(want json.Delim) error {
		t, err := d.Token()
		if err == nil && t != want {
			err = errForm
		}
		return err
	}
	if err := open('{'); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if name != list {
			var skip json.RawMessage
			if err := d.Decode(&skip); err != nil {
				return err
			}
			continue
		}
		if err := open('['); err != nil {
			return err
		}
		for n := 0; d.More(); n++ {
			item := new(T)
			if err := d.Decode(item); err != nil {
				return err
			}
			if n >= maxItems {
				return errors.New("the list is too long")
			}
			f(item)
		}
		if err := open(']'); err != nil {
			return err
		}
	}
	return open('}')
}
