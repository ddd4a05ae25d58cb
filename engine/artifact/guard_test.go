package artifact_test

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"neuron/engine/artifact"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/llama/gguf"
)

// TestPublishedWhatNoNodeTakes: a publisher took models that every node's load
// gate refuses, and all of them were fetched for nothing.
func TestPublishedWhatNoNodeTakes(t *testing.T) {
	t.Parallel()
	indexers := func(first bool) gguf.KV {
		return gguf.KV{Key: "glm-dsa.attention.indexer.types", Value: gguf.Bools([]bool{first, true, false, false})}
	}
	full := gguf.KV{Key: "gemma4.attention.sliding_window", Value: gguf.U32(0)}
	for name, tt := range map[string]struct {
		arch   string
		layers uint32
		more   []gguf.KV
		want   string // of the refusal, "" for none
	}{
		"good indexers": {"glm-dsa", 4, []gguf.KV{indexers(true)}, ""},
		"first layer":   {"glm-dsa", 4, []gguf.KV{indexers(false)}, "the first layer of this glm-dsa model"},
		"two layers":    {"gemma4", 2, []gguf.KV{full}, ""},
		"one layer":     {"gemma4", 1, []gguf.KV{full}, "1 layers, gemma4 models have at least 2"},
	} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		kvs := []gguf.KV{{Key: gguf.ArchitectureKey, Value: gguf.String(tt.arch)}}
		for key, n := range map[string]uint32{
			"block_count": tt.layers, "embedding_length": 64, "context_length": 512, "attention.head_count": 2, "attention.head_count_kv": 1,
			"vocab_size": 8, "attention.indexer.top_k": 16, "attention.indexer.key_length": 32,
		} {
			kvs = append(kvs, gguf.KV{Key: tt.arch + "." + key, Value: gguf.U32(n)})
		}
		embedding := gguf.TensorInfo{Name: "token_embd.weight", Dims: []uint64{64, 8}, Type: gguf.TypeF32}
		zeros := func(_ int, w io.Writer) error { _, err := w.Write(make([]byte, 64*8*4)); return err }
		if err := gguf.WriteFile(path, append(kvs, tt.more...), []gguf.TensorInfo{embedding}, zeros, gguf.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		_, held := artifact.Inspect(t.Context(), path, "", quiet)
		_, published := publish.Build(t.Context(), []string{path}, publish.Options{})
		for who, err := range map[string]error{"a node": held, "a publisher": published} {
			if tt.want == "" && err != nil || tt.want != "" && (code(err) != protocol.CodeModelInvalid || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s, %s: %v, want %q", name, who, err, tt.want)
			}
		}
	}
}
