// Package gguf reads and writes GGUF files, version 2 and 3, little-endian: the
// container in which llama.cpp keeps a model's metadata and tensors.
//
// The format is described in ggml's docs/gguf.md; the rules that the reader enforces
// are those of ggml's own reader (gguf_init_from_file of llama.cpp v0.4.0) and some
// stricter ones, because files come from strangers: a file that ggml refuses is
// refused here too, before any memory is allocated for what it claims to hold.
//
// Any package of Neuron may import this one. It knows the container only: it does not
// know model families, layers, stages, BitTorrent or libllama.
package gguf
