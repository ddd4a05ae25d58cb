package registry

import (
	"math"
	"net"
	"slices"
	"strconv"
	"unicode"
	"unicode/utf8"

	"neuron/engine/protocol"
)

// Limits of what a node may claim.
const (
	MaxShards  = 64
	MaxExits   = 4096
	MaxRTTs    = 1024 // engines measure at most 256
	MaxLayers  = 4096
	maxText    = 256
	maxNames   = 16 // sidebands, and dtypes
	maxDevices = 64
	maxWidth   = 1 << 20
	maxVocab   = 1 << 24
	maxMicros  = 3_600_000_000 // an hour
	maxBytes   = 1 << 50
	maxPerCell = 1 << 30
	maxCount   = 1 << 20
)

// CheckHello checks the words of a hello; keys and signatures are the
// channel's subject.
func CheckHello(h *protocol.Hello) error {
	if h.Role != protocol.RoleNode && h.Role != protocol.RoleGateway {
		return protocol.Errorf(protocol.CodeInvalidRequest, "unknown role %.32q", string(h.Role))
	}
	if err := checkTexts("hello", h.Engine, h.Build.Llama, h.Host, h.Addr); err != nil {
		return err
	}
	if h.Role == protocol.RoleNode || h.Addr != "" {
		if err := checkAddr(h.Addr, false); err != nil {
			return err
		}
	}
	if h.Role == protocol.RoleNode && h.Build.Llama == "" {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the hello of a node names no llama.cpp version")
	}
	return nil
}

func checkAddr(addr string, noHost bool) error {
	host, port, err := net.SplitHostPort(addr)
	if p, perr := strconv.ParseUint(port, 10, 16); err != nil || host == "" && !noHost || perr != nil || p == 0 {
		return bad("address %.80q is not host:port", addr)
	}
	return nil
}

// CheckReport checks all figures of a report; rep is hostile.
func CheckReport(rep *protocol.Report) error {
	if len(rep.Shards) > MaxShards {
		return bad("%d shards, at most %d", len(rep.Shards), MaxShards)
	}
	if err := CheckRTTs(rep.RTTMicros); err != nil {
		return err
	}
	if math.IsNaN(rep.MemoryPressure) || rep.MemoryPressure < 0 || rep.MemoryPressure > 1 {
		return bad("memory pressure %g is not in 0..1", rep.MemoryPressure)
	}
	if !within(rep.FreeMemory, maxBytes) || !within(rep.FreeDisk, maxBytes) {
		return bad("free memory %d or disk %d out of range", rep.FreeMemory, rep.FreeDisk)
	}
	if err := checkTexts("report", rep.SharingOff, rep.Swarm); err != nil {
		return err
	}
	if rep.Swarm != "" {
		if err := checkAddr(rep.Swarm, true); err != nil {
			return err
		}
	}
	for i := range rep.Shards {
		if err := checkShard(&rep.Shards[i]); err != nil {
			return err.With("shard", strconv.Itoa(i))
		}
	}
	return nil
}

// CheckRTTs checks a map of measured round trips.
func CheckRTTs(rtts map[protocol.NodeID]int64) error {
	if len(rtts) > MaxRTTs {
		return bad("%d round trips, at most %d", len(rtts), MaxRTTs)
	}
	for id, us := range rtts {
		if _, err := protocol.ParseNodeID(string(id)); err != nil {
			return err
		}
		if !within(us, maxMicros) {
			return bad("round trip of %d us out of range", us)
		}
	}
	return nil
}

func checkShard(s *protocol.ShardReport) *protocol.Error {
	c := &s.Capability
	switch s.State {
	case protocol.ShardDownloading, protocol.ShardVerifying, protocol.ShardLoading,
		protocol.ShardReady, protocol.ShardDraining, protocol.ShardFailed:
	default:
		return bad("unknown shard state %.32q", string(s.State))
	}
	if _, err := protocol.ParseModelID(string(c.Model)); err != nil {
		return bad("%.100s", err)
	}
	if c.Layers < 1 || c.Layers > MaxLayers || !c.Loaded.Valid(c.Layers) {
		return bad("layers %s of %d out of range", c.Loaded, c.Layers)
	}
	if len(c.Exits) > MaxExits {
		return bad("%d exits, at most %d", len(c.Exits), MaxExits)
	}
	for _, e := range c.Exits {
		if e <= c.Loaded.First || e > c.Loaded.Last {
			return bad("exit %d outside of layers %s", e, c.Loaded)
		}
	}
	if len(c.Cuts) > MaxLayers {
		return bad("%d cuts, at most %d", len(c.Cuts), MaxLayers)
	}
	for _, at := range c.Cuts {
		if at < 0 || at > c.Layers {
			return bad("cut %d outside of %d layers", at, c.Layers)
		}
	}
	if len(c.KVLayerBytes) > c.Layers {
		return bad("KV bytes of %d layers, the model has %d", len(c.KVLayerBytes), c.Layers)
	}
	for _, n := range c.KVLayerBytes {
		if !within(n, maxPerCell) {
			return bad("%d KV bytes of a layer out of range", n)
		}
	}
	if err := protocol.CheckSeamNeeds(c.Seams, c.Layers); err != nil {
		return err
	}
	if err := protocol.CheckMemory(c.Memory); err != nil {
		return err
	}
	if len(c.DTypes) > maxNames || len(c.Sidebands) > maxNames || len(c.Devices) > maxDevices {
		return bad("%d dtypes, %d sidebands and %d devices", len(c.DTypes), len(c.Sidebands), len(c.Devices))
	}
	texts := slices.Concat([]string{c.Name, c.Architecture, c.WholeOnly, c.KVType, c.CPUVariant, c.Build.Llama}, c.DTypes, c.Sidebands, c.Devices)
	if err := checkTexts("shard", texts...); err != nil {
		return err
	}
	if c.Name == "" {
		return bad("a model without a name")
	}
	for _, f := range []struct {
		name       string
		value, max int64
	}{
		{"width", int64(c.Width), maxWidth},
		{"vocab", int64(c.Vocab), maxVocab},
		{"kv_bytes_per_cell", c.KVBytesPerCell, maxPerCell},
		{"kv_window_bytes", c.KVWindowBytes, maxPerCell},
		{"kv_window_cells", int64(c.KVWindowCells), 1 << 30},
		{"kv_budget_bytes", c.KVBudget, maxBytes},
		{"compute_bytes", c.ComputeBytes, maxBytes},
		{"compute_bytes_per_cell", c.ComputeBytesPerCell, maxPerCell},
		{"max_context", int64(c.MaxContext), 1 << 30},
		{"weight_bytes", c.WeightBytes, maxBytes},
		{"chunk_rows", int64(c.ChunkRows), maxCount},
		{"in_flight_bytes", c.InFlightBytes, maxBytes},
		{"threads", int64(c.Threads), maxCount},
		{"protocol", int64(c.Build.Protocol), maxCount},
		{"free_kv_bytes", s.FreeKVBytes, maxBytes},
		{"sessions", int64(s.Sessions), maxCount},
		{"max_sessions", int64(s.MaxSessions), maxCount},
		{"queue", int64(s.Queue), maxCount},
		{"step_us", s.StepMicros, maxMicros},
		{"chunk_us", s.ChunkMicros, maxMicros},
	} {
		if !within(f.value, f.max) {
			return bad("%s of %d out of range", f.name, f.value)
		}
	}
	if err := checkPrefixes(s.Prefixes); err != nil {
		return err
	}
	if s.State == protocol.ShardReady && (c.Width < 1 || c.MaxContext < 1) {
		return bad("a ready shard with width %d and context %d", c.Width, c.MaxContext)
	}
	return CheckError(s.Error)
}

func checkPrefixes(ids []string) *protocol.Error {
	if len(ids) > protocol.MaxPrefixes {
		return bad("%d prefixes, at most %d", len(ids), protocol.MaxPrefixes)
	}
	for _, id := range ids {
		if id == "" || len(id) > 64 {
			return bad("a prefix id of %d bytes", len(id))
		}
	}
	return checkTexts("list of prefixes", ids...)
}

// CheckRoute checks what a route request says of nodes and prefixes.
func CheckRoute(q *protocol.RouteRequest) error {
	if len(q.Nodes) > protocol.MaxRouteNodes {
		return bad("%d nodes of a private route, at most %d", len(q.Nodes), protocol.MaxRouteNodes)
	}
	for _, id := range q.Nodes {
		if _, err := protocol.ParseNodeID(string(id)); err != nil {
			return err
		}
	}
	ids := make([]string, 0, min(len(q.Prefixes), protocol.MaxPrefixes+1))
	for _, p := range q.Prefixes[:min(len(q.Prefixes), protocol.MaxPrefixes+1)] {
		if p.Tokens < 1 || p.Tokens > q.Prompt {
			return bad("a prefix of %d tokens of a prompt of %d", p.Tokens, q.Prompt)
		}
		ids = append(ids, p.ID)
	}
	if err := checkPrefixes(ids); err != nil {
		return err
	}
	return CheckRTTs(q.RTTMicros)
}

// CheckError checks an error object that another side sent; nil is fine.
func CheckError(e *protocol.Error) *protocol.Error {
	if e == nil {
		return nil
	}
	if e.Code == "" || len(e.Code) > 64 || len(e.Message) > 2048 || len(e.Phase) > 32 || len(e.Param) > maxText || len(e.Detail) > 16 {
		return bad("an error object is too large or has no code")
	}
	if e.Hop != nil && (*e.Hop < 0 || *e.Hop >= protocol.MaxHops) {
		return bad("hop %d out of range", *e.Hop)
	}
	for k, v := range e.Detail {
		if len(k) > maxText || len(v) > maxText {
			return bad("an error detail is too long")
		}
	}
	return nil
}

// checkTexts refuses long texts and such that could upset a terminal or a log.
func checkTexts(where string, texts ...string) *protocol.Error {
	for _, s := range texts {
		if len(s) > maxText || !utf8.ValidString(s) {
			return bad("a text in the %s has %d bytes or is not UTF-8", where, len(s))
		}
		for _, c := range s {
			if unicode.IsControl(c) {
				return bad("a text in the %s holds control characters", where)
			}
		}
	}
	return nil
}

func within(v, limit int64) bool { return v >= 0 && v <= limit }

func bad(format string, args ...any) *protocol.Error {
	return protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
}
