package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/acceptance/families"
	"neuron/internal/localnet"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// refusal is what the API says to a request that does not fit.
type refusal struct {
	status int
	Error  struct {
		Message string            `json:"message"`
		Type    string            `json:"type"`
		Code    protocol.Code     `json:"code"`
		Detail  map[string]string `json:"detail"`
	} `json:"error"`
}

// refused sends a request that must be refused with code and with fits tokens
// as what would fit, and checks that no hop did anything for it.
func (n *network) refused(ctx context.Context, model string, prompt, tokens int, code protocol.Code, fits int) error {
	before, err := n.opens()
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d+%d tokens of %s", prompt, tokens, model)
	r, err := n.ask(ctx, model, prompt, tokens)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	switch {
	case r.Error.Code != code || r.status != code.HTTPStatus() || r.Error.Type != code.OpenAIType():
		return fmt.Errorf("%s: status %d, code %q (%s), want %s", what, r.status, r.Error.Code, r.Error.Message, code)
	case r.Error.Detail["fits"] != strconv.Itoa(fits):
		return fmt.Errorf("%s: refused with %v, want fits=%d", what, r.Error.Detail, fits)
	}
	after, err := n.opens()
	if err == nil && after != before {
		err = fmt.Errorf("%s: hops opened %d sessions for a refused request", what, after-before)
	}
	return err
}

// ask sends a completion request and reads an error answer.
func (n *network) ask(ctx context.Context, model string, prompt, tokens int) (*refusal, error) {
	end, err := localnet.Endpoint(n.gateway)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"model": model, "prompt": promptIDs(prompt), "max_tokens": tokens, "temperature": 0, "ignore_eos": true})
	if err != nil {
		return nil, fmt.Errorf("encode request: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, end.URL+"/completions", bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+end.Key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	defer resp.Body.Close()
	r := &refusal{status: resp.StatusCode}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(r); err != nil {
		return nil, fmt.Errorf("answer: %w", err)
	}
	return r, nil
}

// opens counts the sessions that stages have opened, by the nodes' logs.
func (n *network) opens() (int, error) {
	count := 0
	for _, x := range n.nodes {
		raw, err := os.ReadFile(x.Log)
		if err != nil {
			return 0, fmt.Errorf("log of layers %s: %w", x.Layers, err)
		}
		count += bytes.Count(raw, []byte("seam session opened"))
	}
	return count, nil
}

// waitFree waits until the tracker knows that every node has all its KV memory.
func (n *network) waitFree(ctx context.Context, budget map[string]int64) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for {
		var list struct {
			Nodes []struct {
				Node     string `json:"node"`
				Promised int64  `json:"promised_kv_bytes"`
				Shards   []struct {
					Free int64 `json:"free_kv_bytes"`
				} `json:"shards"`
			} `json:"nodes"`
		}
		if err := localnet.JSON(ctx, n.net.TrackerURL+"/v1/nodes", &list); err != nil {
			return err
		}
		found := 0
		for _, x := range list.Nodes {
			if want, ok := budget[x.Node]; ok && x.Promised == 0 && len(x.Shards) == 1 && x.Shards[0].Free == want {
				found++
			}
		}
		if found == len(budget) {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the tracker does not see all KV memory free: %+v, want %v", list.Nodes, budget)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// inspect runs "neuron-engine inspect --json".
func (e *env) inspect(ctx context.Context, path string) (*protocol.Capability, error) {
	out, err := exec.CommandContext(ctx, filepath.Join(e.bin, "neuron-engine"), "inspect", "--json", path).Output()
	if err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	var c protocol.Capability
	if err := json.Unmarshal(out, &c); err != nil {
		return nil, fmt.Errorf("inspect %s: %w", path, err)
	}
	return &c, nil
}

// incomplete names the fields of a report that say nothing, but for those that
// may be empty.
func incomplete(c *protocol.Capability, empty ...string) []string {
	var out []string
	v := reflect.ValueOf(*c)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && !slices.Contains(empty, name) {
			out = append(out, name)
		}
	}
	return out
}

// Budgets of AC-14, in KV cells of the two hops.
const (
	wideCells   = 2048
	narrowCells = 1024
)

// refusesWhatDoesNotFit is AC-14.
func refusesWhatDoesNotFit(ctx context.Context, e *env) (figure string, err error) {
	whole, err := e.inspect(ctx, guide)
	if err != nil {
		return "", err
	}
	// What only a running stage knows is not in the report of a file.
	if missing := incomplete(whole, "WholeOnly", "Seams", "KVWindowBytes", "KVWindowCells", "KVBudget", "ComputeBytes", "ComputeBytesPerCell",
		"InFlightBytes", "Build", "CPUVariant", "Threads", "Devices", "Rewinds"); len(missing) > 0 {
		return "", fmt.Errorf("inspect leaves out %v", missing)
	}
	n, err := e.start(ctx, "refuse", guide)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, n.net.Stop()) }()
	budget := map[string]int64{}
	half := whole.Layers / 2
	for i, cells := range []int64{wideCells, narrowCells} {
		r := protocol.Range{First: i * half, Last: (i + 1) * half}
		bytes := cells * whole.KVBytesPerCell / 2
		x, err := n.net.StartNode(ctx, fmt.Sprintf("guide-%s", r), localnet.NodeOptions{
			Model: guide, Layers: r.String(), Args: []string{"--kv-bytes", strconv.FormatInt(bytes, 10)},
		})
		if err != nil {
			return "", err
		}
		n.nodes = append(n.nodes, x)
		budget[x.ID] = bytes
	}
	if err := n.net.WaitCovered(ctx, guideName, 1, time.Minute); err != nil {
		return "", err
	}
	for i, x := range n.nodes {
		report, err := capability(ctx, x)
		if err != nil {
			return "", err
		}
		empty := []string{"WholeOnly", "Seams", "KVWindowBytes", "KVWindowCells", "Devices"}
		if i == 0 {
			empty = append(empty, "Tail")
		} else {
			empty = append(empty, "Head")
		}
		if missing := incomplete(report, empty...); len(missing) > 0 {
			return "", fmt.Errorf("the report of layers %s leaves out %v", x.Layers, missing)
		}
		if report.KVBudget != budget[x.ID] || report.KVBytesPerCell*2 != whole.KVBytesPerCell {
			return "", fmt.Errorf("layers %s report a budget of %d and %d per cell", x.Layers, report.KVBudget, report.KVBytesPerCell)
		}
	}
	if err := n.refusals(ctx, budget, whole.MaxContext); err != nil {
		return "", err
	}
	reason, err := e.wholeOnly(ctx, n)
	if err != nil {
		return "", err
	}
	others, err := families.Check(ctx, e.bin, e.data)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("model context fits=%d; route KV fits=%d; beside a session fits=%d; what fits runs; parts of a whole-only model: %q; %s",
		whole.MaxContext, narrowCells, narrowCells/2, reason, others), nil
}

// refusals asks for too much in each way, and then for what was said to fit.
func (n *network) refusals(ctx context.Context, budget map[string]int64, context int) error {
	if err := n.waitFree(ctx, budget); err != nil {
		return err
	}
	if err := n.refused(ctx, guideName, 100, context-99, protocol.CodeContextExceeded, context); err != nil {
		return err
	}
	if err := n.refused(ctx, guideName, context, 1, protocol.CodeContextExceeded, context); err != nil {
		return err
	}
	// The second hop has half of the first one's memory.
	if err := n.refused(ctx, guideName, 100, narrowCells, protocol.CodeKVBudget, narrowCells); err != nil {
		return err
	}
	if err := n.waitFree(ctx, budget); err != nil {
		return fmt.Errorf("after refusals: %w", err)
	}
	if _, err := n.client.complete(ctx, guideName, promptIDs(narrowCells-8), 8, 0); err != nil {
		return fmt.Errorf("what was said to fit: %w", err)
	}
	if err := n.waitFree(ctx, budget); err != nil {
		return err
	}
	// Beside a session that holds half of it.
	s := n.background(ctx, guideName, 16, narrowCells/2-16)
	err := n.waitSessions(ctx, func(s protocol.SessionState) bool { return s.Counters.DecodeRows > 0 })
	if err == nil {
		err = n.refused(ctx, guideName, 16, narrowCells/2, protocol.CodeKVBudget, narrowCells/2)
	}
	if err == nil {
		_, err = n.client.complete(ctx, guideName, promptIDs(narrowCells/2-4), 4, 0)
	}
	return errors.Join(err, s.end(), n.waitFree(ctx, budget))
}

// wholeOnly asks a node for part of a model that is certified for none.
func (e *env) wholeOnly(ctx context.Context, n *network) (reason string, err error) {
	shape, err := synth.Preset("tiny-gemma3")
	if err != nil {
		return "", err
	}
	plain := filepath.Join(e.data, "plain.gguf")
	path := filepath.Join(e.data, "wholeonly.gguf")
	if err := synth.Write(plain, shape, synth.Options{Type: gguf.TypeQ8_0, Seed: 4}); err != nil {
		return "", err
	}
	// A pattern that the library does not read: what it would do with a part is
	// not what the model means.
	err = withKey(plain, path, gguf.KV{Key: "gemma3.attention.sliding_window_pattern", Value: gguf.Bools(make([]bool, shape.Layers))})
	if err != nil {
		return "", err
	}
	report, err := e.inspect(ctx, path)
	if err != nil {
		return "", err
	}
	if report.WholeOnly == "" || len(report.Cuts) > 0 || !slices.Equal(report.Exits, []int{shape.Layers}) {
		return "", fmt.Errorf("whole-only model: reason %q, cuts %v, exits %v", report.WholeOnly, report.Cuts, report.Exits)
	}
	x, err := n.net.StartNode(ctx, "part", localnet.NodeOptions{Model: path, Layers: "0-4"})
	if err == nil {
		return "", errors.Join(errors.New("a node holds part of a whole-only model"), n.net.Forget(x.Proc))
	}
	if text := err.Error(); !strings.Contains(text, string(protocol.CodeModelUncut)) || !strings.Contains(text, report.WholeOnly) {
		return "", fmt.Errorf("part of a whole-only model: %w", err)
	}
	return report.WholeOnly, nil
}

// withKey copies a GGUF with one more key.
func withKey(from, to string, kv gguf.KV) error {
	m, err := gguf.OpenModel(from)
	if err != nil {
		return err
	}
	defer m.Close()
	var infos []gguf.TensorInfo
	for _, t := range m.Tensors() {
		infos = append(infos, t.TensorInfo)
	}
	data := func(i int, w io.Writer) error {
		_, err := w.Write(m.Data(m.Tensors()[i]))
		return err
	}
	return gguf.WriteFile(to, append(slices.Clone(m.Meta().KVs), kv), infos, data, gguf.WriteOptions{})
}

// longName is the model of AC-19: it claims twice the cap.
const longName = "long"

var longShape = synth.Shape{
	Family: synth.FamilyLlama, Layers: 2, Embd: 64, FF: 64, Heads: 2, KVHeads: 1, HeadDim: 32, Vocab: 512, Context: 2 * protocol.MaxContext,
}

// capsContext is AC-19: the cap shows everywhere, one token more is refused at
// the gateway, and the whole of it can be reserved.
func capsContext(ctx context.Context, e *env) (figure string, err error) {
	path := filepath.Join(e.data, longName+".gguf")
	if err := synth.Write(path, longShape, synth.Options{Type: gguf.TypeQ8_0, Seed: 5}); err != nil {
		return "", err
	}
	seen := map[string]int{}
	c, err := e.inspect(ctx, path)
	if err != nil {
		return "", err
	}
	seen["inspect"] = c.MaxContext
	n, err := e.start(ctx, "long", path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, n.net.Stop()) }()
	budget := c.KVBytesPerCell * protocol.MaxContext
	err = n.hold(ctx, path, longName, []string{"0-1", "1-2"}, localnet.NodeOptions{Args: []string{"--kv-bytes", strconv.FormatInt(budget/2, 10)}})
	if err != nil {
		return "", err
	}
	for i, x := range n.nodes {
		report, err := capability(ctx, x)
		if err != nil {
			return "", err
		}
		seen[fmt.Sprintf("report of hop %d", i)] = report.MaxContext
		l, err := localapi.Dial(x.Data)
		if err != nil {
			return "", err
		}
		list, err := l.Models(ctx)
		l.Close()
		if err != nil {
			return "", err
		}
		for _, m := range list {
			seen[fmt.Sprintf("local API of hop %d", i)] = m.Info.Context
		}
	}
	m, err := n.net.WaitRoute(ctx, longName, time.Minute)
	if err != nil {
		return "", err
	}
	seen["tracker"] = m.Context
	var served struct {
		Data []struct {
			Neuron protocol.ModelInfo `json:"neuron"`
		} `json:"data"`
	}
	if _, err := n.client.JSON(ctx, http.MethodGet, "/models", nil, &served); err != nil {
		return "", err
	}
	for _, m := range served.Data {
		seen["gateway"] = m.Neuron.Context
	}
	if len(seen) != 7 {
		return "", fmt.Errorf("the context is not shown everywhere: %v", seen)
	}
	for where, got := range seen {
		if got != protocol.MaxContext {
			return "", fmt.Errorf("the %s shows a context of %d, the cap is %d", where, got, protocol.MaxContext)
		}
	}
	for _, tokens := range []int{protocol.MaxContext - 15, 2 * protocol.MaxContext} {
		if err := n.refused(ctx, longName, 16, tokens, protocol.CodeContextExceeded, protocol.MaxContext); err != nil {
			return "", err
		}
	}
	// A prompt that is too long by itself.
	if err := n.refused(ctx, longName, protocol.MaxContext, 1, protocol.CodeContextExceeded, protocol.MaxContext); err != nil {
		return "", err
	}
	s := n.background(ctx, longName, 16, protocol.MaxContext-16)
	err = n.waitSessions(ctx, func(s protocol.SessionState) bool {
		return s.Counters.DecodeRows > 0 && s.Cells == protocol.MaxContext
	})
	if err = errors.Join(err, s.end()); err != nil {
		return "", err
	}
	if err := n.waitIdle(ctx); err != nil {
		return "", err
	}
	return fmt.Sprintf("cap=%d in %d places; %d tokens refused; a session of all %d cells opened", protocol.MaxContext, len(seen), protocol.MaxContext+1, protocol.MaxContext), nil
}
