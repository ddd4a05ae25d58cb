package gateway_test

import (
	"testing"

	"neuron/engine/gateway/gatewaytest"
)

// TestAPI runs the suite that engine/program runs with a real model, and the
// real clients, against the fake.
func TestAPI(t *testing.T) {
	f := gatewaytest.Scripted()
	_, srv := serve(t, f, nil)
	a := gatewaytest.API{URL: srv.URL + "/v1", Model: gatewaytest.ModelName}
	t.Run("suite", func(t *testing.T) { gatewaytest.APISuite(t, a) })
	t.Run("openai-go", func(t *testing.T) { gatewaytest.GoClient(t, a) })
	t.Run("npm openai", func(t *testing.T) { gatewaytest.NPMClient(t, a) })
}
