package manifest

// Limits of what a manifest may claim. They hold the memory that a hostile one
// can take, and the arithmetic with its figures, far inside 63 bits.
const (
	MaxBytes   = 32 << 20 // of the signed form
	MaxFiles   = 1024
	MaxTensors = 65536
	MaxLayers  = 512 // llama.cpp's LLAMA_MAX_LAYERS
	// MaxTotal is the most bytes of all files: MaxPieces of the largest pieces.
	MaxTotal = MaxPieces * MaxPieceLength

	// MaxPieces keeps a torrent's hashes at 20 MiB.
	MaxPieces      = 1 << 20
	MinPieceLength = 16 << 10 // BEP 3 clients ask for blocks of this size
	MaxPieceLength = 16 << 20

	maxName      = 200 // bytes; room for suffixes in a file name
	maxText      = 256 // bytes of a sentence, a licence, a tokenizer
	maxTensor    = 63  // bytes of a tensor's name (GGML_MAX_NAME)
	maxDims      = 4
	maxHeader    = 512 << 20
	maxAlignment = 1 << 30
	maxType      = 1023
	maxWidth     = 65536
	maxContext   = 1 << 30
	maxKVLayer   = 1 << 30
)
