// Package gateway is the OpenAI-compatible HTTP API of an engine.
//
// It turns requests into token prompts, starts sessions on a Backend, and
// turns their tokens back into text, streams, usage and telemetry. It owns no
// listener: New returns an http.Handler, and Close ends what runs.
//
// The package must not know how sessions run: it imports protocol and nothing
// else of the engine (no seam, no control, no llama). engine/session
// implements Backend; gatewaytest holds a fake, and the suites and real clients
// that both go through. Its parts: chattmpl (chat templates), schema (JSON
// schemas to grammars), toolcall (how models write calls).
//
// Decisions that a reader may look for:
//
//   - Sampling defaults are llama.cpp's (temperature 0.8, top_k 40, top_p 0.95,
//     min_p 0.05), not OpenAI's 1.0 alone: small open models need them.
//   - max_tokens left out means the rest of the context, or
//     Options.DefaultMaxTokens if that is smaller.
//   - usage.completion_tokens counts sampled tokens without the one that ended
//     the answer (EOG); tokens of a matched stop string are counted, since they
//     were computed. prompt_tokens is the number of ids sent, once per prompt.
//   - n answers are made one after the other, each in a session of its own;
//     answer i uses seed+i.
//   - Structured answers and forced calls are held to by a grammar that the
//     tail's sampler follows. The model's text tools check every grammar before
//     a session starts.
//   - Calls are read from the answer's text behind the stop strings; their
//     marks may be control tokens, whose text is put in by id. An answer with
//     calls ends with tool_calls, but for a function that the client named:
//     with stop, as OpenAI's does. Probabilities are given for text only.
//   - Of several stop strings the one that is complete first counts; of those
//     complete at the same byte, the longest.
//   - A stream that fails gets a data event with an error, no finish_reason and
//     no [DONE]. Until something has to be sent, a failure is a plain HTTP error.
package gateway
