package llama

import (
	"errors"
	"math"
	"testing"

	"neuron/llama/gguf"
)

// TestInitModel tries what is refused; package archs makes models with it.
func TestInitModel(t *testing.T) {
	g := emptyGGUF(t)
	set := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	set(g.SetString("general.architecture", "llama"))
	set(g.SetString("tokenizer.ggml.model", "no_vocab"))
	for key, v := range map[string]uint32{
		"vocab_size": 32, "context_length": 64, "embedding_length": 32, "block_count": 1, "feed_forward_length": 64,
		"attention.head_count": 2, "attention.head_count_kv": 1,
	} {
		set(g.SetU32("llama."+key, v))
	}
	set(g.SetF32("llama.attention.layer_norm_rms_epsilon", 1e-6))
	// The list of tensors is too short, which is refused with the right length.
	_, err := InitModel(g, func(Tensor) {}, ModelParams{})
	var e *Error
	if !errors.As(err, &e) || e.Code != CodeModelLoad {
		t.Errorf("without a list: %v", err)
	}
	if _, err := InitModel(g, nil, ModelParams{}); !errors.As(err, &e) || e.Code != CodeInvalidArg {
		t.Errorf("nobody fills: %v", err)
	}
	g.Free()
	if _, err := InitModel(g, func(Tensor) {}, ModelParams{}); !errors.As(err, &e) || e.Code != CodeInvalidHandle {
		t.Errorf("freed: %v", err)
	}
}

// TestQuantizeRows: a quantized row reads back near to what it was, by the layout that
// the format's description gives, and what cannot be done is refused.
func TestQuantizeRows(t *testing.T) {
	load(t)
	rows := make([]float32, 64)
	for i := range rows {
		rows[i] = float32(i) - 31.5
	}
	b, err := QuantizeRows(uint32(gguf.TypeQ8_0), rows, 32)
	if err != nil || len(b) != 2*34 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	// A block of Q8_0 is a scale in half precision and 32 bytes: the largest number is
	// 127 times the scale.
	for i, want := range rows {
		block := b[i/32*34:]
		if got := float64(int8(block[2+i%32])) * 31.5 / 127; math.Abs(got-float64(want)) > 0.2 {
			t.Errorf("number %d is %g, was %g", i, got, want)
		}
	}
	plain, err := QuantizeRows(uint32(gguf.TypeF32), rows[:2], 2)
	if err != nil || len(plain) != 8 {
		t.Errorf("%v, %v", plain, err)
	}
	for name, f := range map[string]func() ([]byte, error){
		"a type without a quantizer": func() ([]byte, error) { return QuantizeRows(uint32(gguf.TypeI32), rows, 32) },
		"one that needs a matrix":    func() ([]byte, error) { return QuantizeRows(uint32(gguf.TypeIQ1_S), rows, 32) },
		"no such type":               func() ([]byte, error) { return QuantizeRows(999, rows, 32) },
		"half a block":               func() ([]byte, error) { return QuantizeRows(uint32(gguf.TypeQ8_0), rows, 16) },
		"half a row":                 func() ([]byte, error) { return QuantizeRows(uint32(gguf.TypeQ8_0), rows[:33], 32) },
		"no width":                   func() ([]byte, error) { return QuantizeRows(uint32(gguf.TypeQ8_0), rows, 0) },
	} {
		var e *Error
		if _, err := f(); !errors.As(err, &e) || e.Code != CodeInvalidArg {
			t.Errorf("%s: %v", name, err)
		}
	}
}
