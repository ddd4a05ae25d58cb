package auditmsg_test

import (
	"testing"

	"neuron/engine/protocol/auditmsg"
	"neuron/engine/protocol/protocoltest"
)

// TestGoldenJSON holds the JSON objects that reach a wire, and what is inside
// them.
func TestGoldenJSON(t *testing.T) {
	protocoltest.JSON(t, map[string]any{
		"audit-keep":   auditmsg.AuditKeep{},
		"audit-ready":  auditmsg.AuditReady{},
		"audit-result": auditmsg.AuditResult{},
		"audit-run":    auditmsg.AuditRun{},
		"audit-send":   auditmsg.AuditSend{},
		"audit-ticket": auditmsg.AuditTicket{},
	})
}
