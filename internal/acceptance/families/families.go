// Package families is the part of acceptance criterion AC-14 that covers every
// certified family: stages of each report what they are and what they cost, and
// refuse what does not fit; and routes over real seams give the whole model's
// tokens where rows carry several streams, token ids or choices of positions,
// or layers keep a state. Package acceptance runs it; nothing else imports it.
package families

import (
	"context"
	"fmt"
	"path/filepath"

	"neuron/llama"
	"neuron/llama/archs"
	"neuron/llama/gguf"
)

// Check runs both parts with the programs in bin; what it writes is in data.
func Check(ctx context.Context, bin, data string) (figure string, err error) {
	native, err := llama.NativeDir()
	if err != nil {
		return "", err
	}
	if err := llama.Load(native); err != nil {
		return "", err
	}
	routes, err := overSeams(ctx, bin, filepath.Join(data, "families"))
	if err != nil {
		return "", err
	}
	reports, err := allReports(ctx, bin, native, filepath.Join(data, "reports"))
	if err != nil {
		return "", err
	}
	return reports + "; " + routes, nil
}

// seed is that of all models here.
const seed = 14

// write makes a small random model of an architecture.
func write(dir, arch string) (string, error) {
	path := filepath.Join(dir, arch+".gguf")
	if err := archs.Write(path, arch, gguf.TypeQ8_0, seed); err != nil {
		return "", fmt.Errorf("write a %s model: %w", arch, err)
	}
	return path, nil
}
