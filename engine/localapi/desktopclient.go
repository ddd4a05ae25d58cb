package localapi

import (
	"context"
	"net/http"
	"strconv"

	"neuron/engine/policy"
)

// Settings are what the user has chosen for this computer.
func (c *Client) Settings(ctx context.Context) (policy.Settings, error) {
	return value(got[policy.Settings](ctx, c, pathSettings))
}

// SetSettings takes all settings; see Desktop.
func (c *Client) SetSettings(ctx context.Context, s policy.Settings) (policy.Settings, error) {
	return value(call[policy.Settings](ctx, c, http.MethodPut, pathSettings, s))
}

func value(s *policy.Settings, err error) (policy.Settings, error) {
	if err != nil {
		return policy.Settings{}, err
	}
	return *s, nil
}

// Pause stops sharing for a while.
func (c *Client) Pause(ctx context.Context, p PauseOrder) error { return c.post(ctx, pathPause, p) }

// Resume ends a pause.
func (c *Client) Resume(ctx context.Context) error { return c.post(ctx, pathResume, done{}) }

// Hardware is what this computer is.
func (c *Client) Hardware(ctx context.Context) (*Hardware, error) {
	return got[Hardware](ctx, c, pathHardware)
}

// Probe measures this computer again.
func (c *Client) Probe(ctx context.Context) (*Hardware, error) {
	return call[Hardware](ctx, c, http.MethodPost, pathHardware, done{})
}

// Network is the tracker's view of the network.
func (c *Client) Network(ctx context.Context) (*Network, error) {
	return got[Network](ctx, c, pathNetwork)
}

// Access says how to reach the OpenAI API of this computer.
func (c *Client) Access(ctx context.Context) (*Access, error) {
	return got[Access](ctx, c, pathAccess)
}

// Report is a text for those who help.
func (c *Client) Report(ctx context.Context) (string, error) {
	raw, err := c.raw(ctx, http.MethodGet, pathReport, nil)
	return string(raw), err
}

// Logs are the newest lines with a number above after, oldest first.
func (c *Client) Logs(ctx context.Context, after int64) ([]LogLine, error) {
	out, err := got[logLines](ctx, c, pathLogs+"?after="+strconv.FormatInt(after, 10))
	if err != nil {
		return nil, err
	}
	return out.Lines, nil
}
