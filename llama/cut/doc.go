// Package cut turns a GGUF model into per-layer files and makes stages of them
// that unmodified libllama loads.
//
// A shard folder holds, for the layers that a node owns:
//
//	shard.json   what the folder holds: tensors, extents, hashes (Index)
//	meta.gguf    the publisher's metadata without tensors
//	NAME.gguf    one file per non-block tensor ("token_embd.weight.gguf")
//	blk.0007.gguf one file per layer
//	verified.json which files were hashed, and how they looked then
//
// Tensor bytes are those of the publisher's file, behind a header region of
// fixed size, so a change of range or role moves no bytes: before each load
// Prepare writes an empty stem (metadata only), stand-ins for tensors that the
// stage must have but never reads, and new headers into the same files. The
// result is a split GGUF for llama_model_load_from_splits.
//
// Import fills a folder from a local GGUF; Begin, Layout and Add from anything
// else that has the bytes. No stage is made of a file whose tensors do not have
// the hashes of the index: Prepare verifies what is not remembered as sound.
//
// The recipe and its traps are in docs/decisions/0002 and 0008. The package reads and
// writes files; it knows neither libllama nor the network. The engine, its
// tools and tests may import it.
package cut

// HeaderRegion is the fixed size of the header in front of tensor data, in
// bytes. It holds a layer's tensor infos for any cut with room to spare.
const HeaderRegion = 64 << 10

// standInVocab is the vocabulary of a stage that sees no tokens; llama.cpp
// needs at least a few rows in token_embd.
const standInVocab = 32
