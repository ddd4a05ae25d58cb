// Package llama binds an unmodified libllama v0.4.0 (the shared libraries of the
// npm packages @node-llama-cpp/<platform> 3.21.1) without cgo.
//
// Only the engine's stage process and the tests of models import it. It knows the
// C interface and the conditions under which libllama aborts the process, which
// it checks before each call. It must not know what a stage, a session, a lease
// or a network is.
//
// Handles (Model, Context, Sampler, ...) are plain values; a handle that was
// freed or never made gives an error or a zero value, not a crash. A Context and
// what belongs to it (Memory, Batch, Sampler) is used by one goroutine at a time;
// different contexts may run at the same time. AbortSlot.Set is for any
// goroutine. Load comes first; before it every call reports not_loaded.
package llama
