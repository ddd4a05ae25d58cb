package seamclient

import (
	"bytes"
	"context"
	"net/http"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/engine/seam/wire"
)

// auditWait bounds the sending of kept frames: a few tens of megabytes over a
// home connection.
const auditWait = 60 * time.Second

// SendAudit sends kept frames to an auditor and returns when it has taken them.
// Frames have any slot and are not changed. Errors are coded.
func (c *Client) SendAudit(ctx context.Context, to protocol.Peer, audit auditmsg.AuditID, side auditmsg.AuditSide, frames []*protocol.Frame) error {
	var body []byte
	for _, f := range frames {
		var err error
		if body, err = protocol.AppendFrame(body, f, protocol.SeamLimits()); err != nil {
			return err
		}
	}
	hop := protocol.Hop{Node: to.Node, Addr: to.Addr}
	t, err := c.transport(to.Node)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, auditWait)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	url := "https://" + to.Addr + wire.PathAudits + "/" + string(audit) + "/" + string(side)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "address %.100q: %w", to.Addr, err)
	}
	req.Header.Set("Content-Type", wire.ContentFrames)
	resp, err := t.RoundTrip(req)
	if err != nil {
		return c.lost(ctx, hop, protocol.CodeUnavailable, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return wire.ReadError(resp)
	}
	return nil
}
