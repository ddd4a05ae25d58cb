package gateway

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"

	"neuron/engine/protocol"
)

// Limits of request fields.
const (
	maxStops      = 16
	maxStopBytes  = 256
	maxLogitBias  = 1024
	maxN          = 8
	maxPrompts    = 16
	maxMessages   = 4096
	maxGrammar    = 64 << 10
	maxTemplateKV = 16
)

// fields reads a JSON object field by field and keeps the first mistake.
// null counts as absent everywhere.
type fields struct {
	raw map[string]json.RawMessage
	err *protocol.Error
}

// parseFields takes a request body, which is hostile.
func parseFields(body []byte) (*fields, *protocol.Error) {
	d := json.NewDecoder(bytes.NewReader(body))
	f := &fields{}
	if err := d.Decode(&f.raw); err != nil || f.raw == nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the body is not a JSON object")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "there is something behind the JSON object")
	}
	for k, v := range f.raw {
		if string(v) == "null" {
			delete(f.raw, k)
		}
	}
	return f, nil
}

func (f *fields) has(name string) bool { _, ok := f.raw[name]; return ok }

func (f *fields) fail(e *protocol.Error) {
	if f.err == nil {
		f.err = e
	}
}

// decode reads a field into v; false if it is absent or wrong.
func (f *fields) decode(name string, v any, kind string) bool {
	raw, ok := f.raw[name]
	if !ok {
		return false
	}
	if json.Unmarshal(raw, v) != nil {
		f.fail(badParam(name, "%s must be %s", name, kind))
		return false
	}
	return true
}

func (f *fields) str(name string) (v string) { f.decode(name, &v, "a string"); return v }

func (f *fields) boolean(name string) (v bool) { f.decode(name, &v, "true or false"); return v }

// num reads a number between lo and hi; absent gives def.
func (f *fields) num(name string, lo, hi, def float64) float64 {
	v := def
	if f.decode(name, &v, "a number") && !(v >= lo && v <= hi) {
		f.fail(badParam(name, "%s must be between %s and %s", name, plain(lo), plain(hi)))
		return def
	}
	return v
}

// plain writes a bound as people do, without an exponent.
func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// integer is num for whole numbers.
func (f *fields) integer(name string, lo, hi, def int) int {
	v := f.num(name, float64(lo), float64(hi), float64(def))
	if v != math.Trunc(v) {
		f.fail(badParam(name, "%s must be a whole number", name))
		return def
	}
	return int(v)
}

// params are the fields that chat and plain completions share.
type params struct {
	model        string
	n            int
	maxTokens    int // 0: not given
	stops        []string
	seeded       bool
	sampler      protocol.Sampler
	format       responseFormat
	stream       bool
	includeUsage bool
	telemetry    bool
	policy       string
	noDraft      bool
	noPrefix     bool
}

// parseParams reads the common fields; mistakes are left in f.
func parseParams(f *fields) params {
	p := params{model: f.str("model"), n: f.integer("n", 1, maxN, 1), stream: f.boolean("stream"), policy: "public"}
	if p.model == "" {
		f.fail(badParam("model", "model is missing"))
	} else if len(p.model) > 512 {
		f.fail(badParam("model", "model is too long"))
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if f.has(name) {
			p.maxTokens = f.integer(name, 1, math.MaxInt32, 0)
		}
	}
	p.stops = f.stops()
	f.sampling(&p)
	var opts struct {
		IncludeUsage *bool `json:"include_usage"`
	}
	if f.decode("stream_options", &opts, "an object") {
		if !p.stream {
			f.fail(badParam("stream_options", "stream_options needs stream: true"))
		}
		p.includeUsage = opts.IncludeUsage != nil && *opts.IncludeUsage
	}
	var ext struct {
		Telemetry bool    `json:"telemetry"`
		Policy    *string `json:"policy"`
		Draft     *string `json:"draft"`
		Prefix    *string `json:"prefix"`
	}
	if f.decode("neuron", &ext, "an object with telemetry (true or false), policy, draft and prefix (strings)") {
		p.telemetry = ext.Telemetry
		if ext.Policy != nil {
			p.policy = *ext.Policy
		}
		if p.policy != "public" && p.policy != "private" {
			f.fail(badParam("neuron.policy", "neuron.policy must be public or private"))
		}
		p.noDraft = f.off("neuron.draft", ext.Draft)
		p.noPrefix = f.off("neuron.prefix", ext.Prefix)
	}
	return p
}

// off reads a switch that is "auto", also when it is not given, or "off".
func (f *fields) off(name string, v *string) bool {
	if v != nil && *v != "auto" && *v != "off" {
		f.fail(badParam(name, "%s must be auto or off", name))
	}
	return v != nil && *v == "off"
}

func (f *fields) stops() []string {
	raw, ok := f.raw["stop"]
	if !ok {
		return nil
	}
	var one string
	var many []string
	if json.Unmarshal(raw, &one) == nil {
		many = []string{one}
	} else if json.Unmarshal(raw, &many) != nil {
		f.fail(badParam("stop", "stop must be a string or a list of strings"))
		return nil
	}
	if len(many) > maxStops {
		f.fail(badParam("stop", "at most %d stop strings are allowed", maxStops))
		return nil
	}
	for _, s := range many {
		if s == "" || len(s) > maxStopBytes {
			f.fail(badParam("stop", "a stop string must have 1 to %d bytes", maxStopBytes))
			return nil
		}
	}
	return many
}

// sampling fills p.sampler. Defaults are llama.cpp's, see the package comment.
func (f *fields) sampling(p *params) {
	s := &p.sampler
	s.Temperature = float32(f.num("temperature", 0, 2, 0.8))
	s.TopK = int32(f.integer("top_k", -1, math.MaxInt32, 40))
	s.TopK = max(0, s.TopK)
	s.TopP = float32(f.num("top_p", 0, 1, 0.95))
	s.MinP = float32(f.num("min_p", 0, 1, 0.05))
	s.TypicalP = float32(f.num("typical_p", 0, 1, 0))
	s.TopNSigma = float32(f.num("top_n_sigma", -1, 1000, 0))
	s.TopNSigma = max(0, s.TopNSigma)
	s.XTCProbability = float32(f.num("xtc_probability", 0, 1, 0))
	s.XTCThreshold = float32(f.num("xtc_threshold", 0, 1, 0))
	s.FrequencyPenalty = float32(f.num("frequency_penalty", -2, 2, 0))
	s.PresencePenalty = float32(f.num("presence_penalty", -2, 2, 0))
	for _, name := range []string{"repetition_penalty", "repeat_penalty"} {
		if f.has(name) {
			s.RepeatPenalty = float32(f.num(name, 0, 10, 0))
		}
	}
	s.RepeatLastN = int32(f.integer("repeat_last_n", -1, protocol.MaxContext, 64))
	s.DRYMultiplier = float32(f.num("dry_multiplier", 0, 100, 0))
	s.DRYBase = float32(f.num("dry_base", 1, 100, 1.75))
	s.DRYAllowedLength = int32(f.integer("dry_allowed_length", 0, protocol.MaxContext, 2))
	s.DRYLastN = int32(f.integer("dry_penalty_last_n", -1, protocol.MaxContext, -1))
	s.Mirostat = int32(f.integer("mirostat", 0, 2, 0))
	s.MirostatTau = float32(f.num("mirostat_tau", 0, 100, 5))
	s.MirostatEta = float32(f.num("mirostat_eta", 0, 10, 0.1))
	s.IgnoreEOG = f.boolean("ignore_eos")
	// Any 64-bit seed is accepted; the sampler takes 32 bits of it.
	var seed int64
	if p.seeded = f.decode("seed", &seed, "a whole number"); p.seeded {
		s.Seed = uint32(seed)
	} else {
		s.Seed = randomSeed()
	}
	var bias map[string]float64
	if f.decode("logit_bias", &bias, "an object of token ids and numbers") {
		if len(bias) > maxLogitBias {
			f.fail(badParam("logit_bias", "at most %d entries are allowed", maxLogitBias))
			return
		}
		s.LogitBias = make(map[int32]float32, len(bias))
		for k, v := range bias {
			id, err := strconv.ParseInt(k, 10, 32)
			if err != nil || id < 0 || !(v >= -100 && v <= 100) {
				f.fail(badParam("logit_bias", "logit_bias maps token ids to numbers between -100 and 100"))
				return
			}
			s.LogitBias[int32(id)] = float32(v)
		}
	}
	if s.Grammar = f.str("grammar"); len(s.Grammar) > maxGrammar {
		f.fail(badParam("grammar", "a grammar of at most %d bytes is allowed", maxGrammar))
	}
	p.format = f.responseFormat()
}

// randomSeed avoids the value that libllama takes as "draw one".
func randomSeed() uint32 {
	var b [4]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return binary.LittleEndian.Uint32(b[:]) &^ (1 << 31)
}

// refuse reports fields that this build lacks and that would change the
// answer, when they ask for something. Empty lists and objects ask for nothing.
func (f *fields) refuse(names ...string) {
	for _, name := range names {
		switch v := strings.Join(strings.Fields(string(f.raw[name])), ""); v {
		case "", "[]", "{}", "false", `""`:
		default:
			f.fail(unsupported(name))
		}
	}
}
