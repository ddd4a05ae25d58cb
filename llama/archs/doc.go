// Package archs writes a small random model for every decoder architecture that the
// pinned libllama knows: eight layers or so of width 256, with the structure that
// published models of the family have, so that whatever depends on structure (loading,
// cutting, memory, state, batching) behaves as with a real one.
//
// Tests and measuring tools may import this package. A table says of each family which
// metadata it has and which tensors it has among those that it may have; sizes and names
// of all tensors then come from libllama itself, which is asked to make the model, so
// llama.Load comes first. Facts of the table: the loaders in src/models of llama.cpp
// v0.4.0 and its converters. It does not know stages, sessions or the network.
package archs
