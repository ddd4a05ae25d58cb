// Package artifacttest makes model files for tests of what reads them. Tests
// alone import it; it knows the file format only.
package artifacttest

import (
	"io"
	"slices"
	"strings"
	"testing"

	"neuron/llama/gguf"
)

// Rewrite copies a GGUF to dst as one of another architecture, with the tensors
// to keep, and with more metadata.
func Rewrite(t testing.TB, src, dst, arch string, keep func(name string) bool, more ...gguf.KV) {
	t.Helper()
	m, err := gguf.OpenModel(src)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	was := m.Meta().Architecture()
	kvs := slices.Clone(m.Meta().KVs)
	for i, kv := range kvs {
		if kv.Key == gguf.ArchitectureKey {
			kvs[i].Value = gguf.String(arch)
		}
		if rest, ok := strings.CutPrefix(kv.Key, was+"."); ok {
			kvs[i].Key = arch + "." + rest
		}
	}
	kvs = append(kvs, more...)
	var infos []gguf.TensorInfo
	var data [][]byte
	for _, x := range m.Tensors() {
		if keep(x.Name) {
			infos, data = append(infos, gguf.TensorInfo{Name: x.Name, Dims: x.Dims, Type: x.Type}), append(data, m.Data(x))
		}
	}
	put := func(i int, w io.Writer) error { _, err := w.Write(data[i]); return err }
	if err := gguf.WriteFile(dst, kvs, infos, put, gguf.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}
