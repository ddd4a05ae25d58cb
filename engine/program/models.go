package program

import (
	"crypto/ed25519"
	"path/filepath"

	"neuron/engine/artifact/catalog"
	"neuron/engine/library"
	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/engine/swarm"
)

// models are a program's way to the models of the network: the tracker's
// catalog, the swarm's child, and what is wanted of it.
type models struct {
	host    *swarm.Host
	lib     *library.Library
	catalog *catalog.Client
}

// modelsOptions are common to node and gateway.
type modelsOptions struct {
	data, tracker, listen string
	limits                swarm.Limits
	spawn                 stage.Spawn
	// trusted are the keys that may sign manifests, at the time of the call.
	trusted func() []ed25519.PublicKey
	token   func() string // for private models
	changed func()
	log     Log
}

func newModels(o modelsOptions) (*models, error) {
	folder, err := filepath.Abs(filepath.Join(o.data, shardsFolder))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "the data folder %s: %w", o.data, err)
	}
	c, err := catalog.New(catalog.Options{URL: o.tracker, Dir: folder, Trusted: o.trusted, Token: o.token, Logger: o.log("catalog")})
	if err != nil {
		return nil, err
	}
	m := &models{catalog: c}
	m.host = swarm.NewHost(swarm.HostOptions{
		Spawn: swarm.Spawn{Exe: o.spawn.Exe, Args: []string{"swarm"}, Logger: o.log("swarm")},
		Changed: func() {
			m.lib.Changed()
			if o.changed != nil {
				o.changed()
			}
		},
	})
	m.lib = library.New(library.Options{
		Catalog: c, Swarm: m.host, Listen: o.listen, Limits: o.limits, Logger: o.log("library"),
	})
	return m, nil
}

// retryable says whether asking again may help, without the user.
func retryable(err error) bool {
	switch protocol.AsError(err).Code {
	case protocol.CodeRangeInvalid, protocol.CodeModelUncut, protocol.CodeInvalidRequest, protocol.CodeForbidden, protocol.CodeUnauthorized:
		return false
	}
	return true
}

// trustedKeys is modelsOptions.trusted for a tracker's key and others.
func trustedKeys(tracker func() ed25519.PublicKey, publishers []ed25519.PublicKey) func() []ed25519.PublicKey {
	return func() []ed25519.PublicKey {
		if k := tracker(); len(k) > 0 {
			return append([]ed25519.PublicKey{k}, publishers...)
		}
		return publishers
	}
}
