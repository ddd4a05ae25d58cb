package protocol

import (
	"errors"
	"fmt"
)

// Code is a stable, machine-readable reason. Codes travel between node,
// tracker, gateway and client; the list is append-only and a code never
// changes its meaning.
type Code string

// The codes. The comment says what the receiver may conclude.
const (
	// Requests and protocol.
	CodeInvalidRequest  Code = "invalid_request"   // the caller's input is wrong; repeating it cannot help
	CodeUnsupported     Code = "unsupported"       // understood, but this build or model does not do it
	CodeUnauthorized    Code = "unauthorized"      // no or wrong key
	CodeForbidden       Code = "forbidden"         // known caller, not allowed here
	CodeNotFound        Code = "not_found"         // no such object
	CodeProtocolVersion Code = "protocol_version"  // the two sides speak different generations
	CodeBuildMismatch   Code = "build_mismatch"    // engine or llama.cpp builds differ where they must agree
	CodeFrameInvalid    Code = "frame_invalid"     // a frame broke the format, its limits or its checksum
	CodeFrameOrder      Code = "frame_order"       // a valid frame at a wrong position, epoch or phase
	CodeFrameNonFinite  Code = "frame_non_finite"  // NaN or Inf in hidden states
	CodeLeaseInvalid    Code = "lease_invalid"     // signature, range, model or peer do not match
	CodeLeaseExpired    Code = "lease_expired"     // the lease's time is over
	CodeInternal        Code = "internal"          // a fault of ours; details are in the log
	CodeUnavailable     Code = "unavailable"       // a needed part is not reachable now
	CodeTimeout         Code = "timeout"           // no answer within the stated time
	CodeCancelled       Code = "cancelled"         // the client ended it
	CodeShutdown        Code = "shutdown"          // the process is stopping in order
	CodeRateLimited     Code = "rate_limited"      // too many requests; see Retry-After
	CodeRequestTooLarge Code = "request_too_large" // body or prompt above a stated limit
	CodeUnknownMessage  Code = "unknown_message"   // a message kind that this side does not know
	CodeSessionExists   Code = "session_exists"    // the session id is already in use on this hop
	CodeSessionUnknown  Code = "session_unknown"   // no such session here
	CodeSuperseded      Code = "superseded"        // a newer connection of the same node took over
	CodeConflict        Code = "conflict"          // the same id, or the same work, was there before with other content
	CodeBudget          Code = "budget_exceeded"   // the account or the key has not enough credit left
	// Models and memory.
	CodeModelUnknown    Code = "model_not_found"         // no such model in the catalog or on this node
	CodeModelInvalid    Code = "model_invalid"           // the GGUF is damaged or not what it claims
	CodeModelDamaged    Code = "model_damaged"           // a model's file on this computer is not what its publisher made
	CodeModelUncut      Code = "model_whole_only"        // this family is not certified for cutting
	CodeRangeInvalid    Code = "range_invalid"           // not a legal layer range of the model
	CodeContextExceeded Code = "context_length_exceeded" // prompt and answer do not fit the context
	CodeKVBudget        Code = "kv_budget"               // not enough KV memory on a hop
	CodeNoRoute         Code = "no_route"                // no set of ready nodes covers all layers
	CodeTemplateInvalid Code = "template_invalid"        // the chat template cannot be run
	CodeGrammarInvalid  Code = "grammar_invalid"         // the grammar does not parse
	CodeDoesNotFit      Code = "does_not_fit"            // the range's weights are larger than this node's memory
	CodeSeamMismatch    Code = "seam_mismatch"           // neighbours disagree in width, element type or sidebands of their seam
	// Stages and hops.
	CodeStageLost       Code = "stage_lost"       // the stage process ended
	CodeStageCrashes    Code = "stage_crashes"    // the stage process dies again and again with this model; it is not started any more
	CodeStageFrozen     Code = "stage_frozen"     // the stage or peer gives no sign of life
	CodeStageOverloaded Code = "stage_overloaded" // the stage's queue is full
	CodeHopLost         Code = "hop_lost"         // a connection of the route broke
	CodeAnswerBroken    Code = "answer_broken"    // an answer's stream ended before the answer was whole
	CodeBatchLayout     Code = "batch_layout"     // rows came back in an unexpected layout; nothing was sent on
	CodeDecodeFailed    Code = "decode_failed"    // libllama refused or failed the step
	CodeNativeMissing   Code = "native_missing"   // the native libraries are not installed
	CodeNativeLayout    Code = "native_layout"    // the native library is not the pinned one
	CodeHostBusy        Code = "host_busy"        // other programs need the CPU
	CodeDeviceMissing   Code = "device_missing"   // a chosen graphics card is not there; the processor computes instead
	// Receipts.
	CodeReceiptInvalid  Code = "receipt_invalid"  // a receipt breaks the format, or is not what its lease allows
	CodeReceiptConflict Code = "receipt_conflict" // a receipt contradicts another one, or what came over the seam
	CodeReceiptUnsigned Code = "receipt_unsigned" // the receiver of a hop's work does not sign for it
	// Host.
	CodePortInUse      Code = "port_in_use"     // another program listens there
	CodeDiskFull       Code = "disk_full"       // no space left for the data folder
	CodeDataFolder     Code = "data_folder"     // the data folder cannot be used
	CodeAlreadyRunning Code = "already_running" // another process owns this data folder
	CodeSettingsBroken Code = "settings_broken" // the settings could not be read, or some of them; what could not has its first value
	CodeSwarmLost      Code = "swarm_lost"      // the process that fetches and seeds models ended; it is started again
	// Releases.
	CodeUpdateAvailable Code = "update_available" // a newer version of Neuron is there
	CodeUpdateInvalid   Code = "update_invalid"   // the list of releases, or a package, is not what its publisher signed
)

// codeInfo holds what is fixed per code: the HTTP status on every HTTP face,
// the OpenAI error type, and a remedy for people where there is one.
type codeInfo struct {
	status int
	kind   string
	remedy string
}

// codes is the one table of statuses and OpenAI types.
var codes = map[Code]codeInfo{
	CodeInvalidRequest:  {400, "invalid_request_error", ""},
	CodeUnsupported:     {400, "invalid_request_error", ""},
	CodeUnauthorized:    {401, "authentication_error", "send the key as 'Authorization: Bearer KEY'"},
	CodeForbidden:       {403, "permission_error", ""},
	CodeNotFound:        {404, "invalid_request_error", ""},
	CodeProtocolVersion: {426, "invalid_request_error", "bring both sides to the same version of Neuron"},
	CodeBuildMismatch:   {409, "server_error", "bring all nodes of the route to the same version of Neuron"},
	CodeFrameInvalid:    {400, "server_error", ""},
	CodeFrameOrder:      {409, "server_error", ""},
	CodeFrameNonFinite:  {422, "server_error", ""},
	CodeLeaseInvalid:    {422, "server_error", ""},
	CodeLeaseExpired:    {422, "server_error", "start a new request"},
	CodeInternal:        {500, "server_error", "see the log of the process that reports it"},
	CodeUnavailable:     {503, "server_error", "try again in a moment"},
	CodeTimeout:         {504, "server_error", "try again in a moment"},
	CodeCancelled:       {499, "server_error", ""},
	CodeShutdown:        {503, "server_error", "try again in a moment"},
	CodeRateLimited:     {429, "rate_limit_error", ""},
	CodeRequestTooLarge: {413, "invalid_request_error", ""},
	CodeUnknownMessage:  {400, "invalid_request_error", ""},
	CodeSessionExists:   {409, "server_error", ""},
	CodeSessionUnknown:  {404, "server_error", ""},
	CodeSuperseded:      {409, "server_error", "stop the other process that uses the same identity"},
	CodeConflict:        {409, "invalid_request_error", ""},
	CodeBudget:          {402, "permission_error", "wait for the next day's budget, raise the key's budget, or earn credit by sharing"},
	CodeModelUnknown:    {404, "invalid_request_error", "see GET /v1/models for what is served"},
	CodeModelInvalid:    {422, "server_error", "get the file again from its publisher"},
	CodeModelDamaged:    {503, "server_error", "nothing: the damaged part is fetched or cut again by itself"},
	CodeModelUncut:      {422, "server_error", "serve this model whole, on one node"},
	CodeRangeInvalid:    {422, "server_error", ""},
	CodeContextExceeded: {400, "invalid_request_error", "shorten the conversation or lower max_tokens"},
	CodeKVBudget:        {503, "server_error", "ask for a shorter context, or try again when other sessions have ended"},
	CodeNoRoute:         {503, "server_error", "wait until nodes cover all layers; the tracker's status page shows what is missing"},
	CodeTemplateInvalid: {400, "invalid_request_error", ""},
	CodeGrammarInvalid:  {400, "invalid_request_error", ""},
	CodeDoesNotFit:      {422, "server_error", "choose fewer layers, or raise the memory limit"},
	CodeSeamMismatch:    {409, "server_error", "bring all nodes of the route to the same version of Neuron and of the model"},
	CodeStageLost:       {502, "server_error", "try again: a retry starts a new session"},
	CodeStageCrashes:    {503, "server_error", "use another model or range, or start the node again after an update"},
	CodeStageFrozen:     {502, "server_error", "try again: a retry starts a new session"},
	CodeStageOverloaded: {503, "server_error", "try again in a moment"},
	CodeHopLost:         {502, "server_error", "try again: a retry starts a new session"},
	CodeAnswerBroken:    {502, "server_error", "try again: a retry starts a new session"},
	CodeBatchLayout:     {500, "server_error", "report this: the stage refused to send rows that could belong to another session"},
	CodeDecodeFailed:    {500, "server_error", ""},
	CodeNativeMissing:   {500, "server_error", "run 'make native', or set NEURON_LLAMA_DIR to the folder with the llama.cpp libraries"},
	CodeNativeLayout:    {500, "server_error", "install the pinned native libraries with 'make native'"},
	CodeHostBusy:        {503, "server_error", "other programs need the processor; try again later"},
	CodeDeviceMissing:   {503, "server_error", "connect it again or install its driver, or choose another device in the settings"},
	CodeReceiptInvalid:  {422, "server_error", ""},
	CodeReceiptConflict: {409, "server_error", ""},
	CodeReceiptUnsigned: {502, "server_error", "try again: a retry starts a new session"},
	CodePortInUse:       {500, "server_error", "choose another port, or stop the program that uses it"},
	CodeDiskFull:        {507, "server_error", "free some space or choose another data folder"},
	CodeDataFolder:      {500, "server_error", "choose a data folder that this user may write"},
	CodeAlreadyRunning:  {409, "server_error", "stop the other process or choose another data folder"},
	CodeSettingsBroken:  {500, "server_error", "look through the settings and make those again that are missing; nothing else is lost"},
	CodeSwarmLost:       {503, "server_error", "it is started again by itself; see the log when it keeps ending"},
	CodeUpdateAvailable: {409, "invalid_request_error", "see Settings, Network, or run 'neuron-engine update'"},
	CodeUpdateInvalid:   {502, "server_error", "nothing was installed; if it stays so for days, get the newest version from its publisher's page"},
}

// Known reports whether c is in this build's list.
func (c Code) Known() bool { _, ok := codes[c]; return ok }

// HTTPStatus is the status that every HTTP face uses for c; 500 for codes of
// a newer build.
func (c Code) HTTPStatus() int {
	if i, ok := codes[c]; ok {
		return i.status
	}
	return 500
}

// OpenAIType is the "type" of an OpenAI error object for c.
func (c Code) OpenAIType() string {
	if i, ok := codes[c]; ok {
		return i.kind
	}
	return "server_error"
}

// Remedy is a sentence that says what a person can do, or "".
func (c Code) Remedy() string { return codes[c].remedy }

// Codes lists every code of this build; the order is not stable.
func Codes() []Code {
	out := make([]Code, 0, len(codes))
	for c := range codes {
		out = append(out, c)
	}
	return out
}

// Error is an application error: a code, a sentence that may be shown to a
// user, and where on the route it happened. Anything else that crosses a
// boundary is shown as "internal" and logged whole.
//
// Its JSON form is the error object of every Neuron face but the OpenAI one.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
	// Hop is the index of the hop on the route, counted from 0; nil when the
	// error does not belong to one hop.
	Hop *int `json:"hop,omitempty"`
	// Phase says what the session was doing.
	Phase Phase `json:"phase,omitempty"`
	// Param names the request's field that is wrong.
	Param string `json:"param,omitempty"`
	// Detail holds figures that help ("fits", "asked", ...).
	Detail map[string]string `json:"detail,omitempty"`

	cause error
}

// Errorf makes an Error; %w keeps the cause for errors.Is and the log, the
// cause's text appears in Message only where the format puts it.
func Errorf(c Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: c, Message: err.Error(), cause: errors.Unwrap(err)}
}

func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Message
	if e.Hop != nil {
		s += fmt.Sprintf(" (hop %d)", *e.Hop)
	}
	return s
}

func (e *Error) Unwrap() error { return e.cause }

// Is matches another *Error with the same code, so that
// errors.Is(err, &Error{Code: c}) works.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}

// AtHop returns a copy of e that names the hop, unless it already names one:
// the first hop that reported is the one to blame.
func (e *Error) AtHop(hop int) *Error {
	c := *e
	if c.Hop == nil {
		c.Hop = &hop
	}
	return &c
}

// InPhase returns a copy of e that names the phase, unless it already has one.
func (e *Error) InPhase(p Phase) *Error {
	c := *e
	if c.Phase == "" {
		c.Phase = p
	}
	return &c
}

// With returns a copy of e with one more detail.
func (e *Error) With(key, value string) *Error {
	c := *e
	c.Detail = make(map[string]string, len(e.Detail)+1)
	for k, v := range e.Detail {
		c.Detail[k] = v
	}
	c.Detail[key] = value
	return &c
}

// AsError finds the *Error in err's chain, or wraps err as CodeInternal with a
// message that gives nothing away.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: "internal error", cause: err}
}
