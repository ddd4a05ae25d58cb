package cut

import (
	"fmt"
	"strings"

	"neuron/llama/gguf"
)

// FileOf says which file of a shard folder a tensor of that name lies in. The
// name must have passed Layout before it is used as a path.
func FileOf(name string) string {
	if i, _, ok := splitBlock(name); ok {
		return layerFile(i)
	}
	return name + ".gguf"
}

// LayerOf is the layer of a layer file's name; false for other files.
func LayerOf(file string) (int, bool) {
	i, rest, ok := splitBlock(file)
	return i, ok && rest == "gguf" && file == layerFile(i)
}

// Layout says which files a shard folder has for the given tensors, in the
// publisher's order, and where the tensors lie in them: Offset and Bytes are
// filled in, the rest is kept. It refuses names that are not usable as file
// names, and sizes that overflow.
func Layout(tensors []Tensor, align uint64) (map[string][]Tensor, error) {
	out := map[string][]Tensor{}
	lower := map[string]string{} // file systems that ignore case
	for _, t := range tensors {
		if err := checkName(t.Name); err != nil {
			return nil, err
		}
		file := FileOf(t.Name)
		low := strings.ToLower(file)
		if other, ok := lower[low]; ok && other != file {
			return nil, fmt.Errorf("%w: files %s and %s differ only in case", ErrShard, other, file)
		}
		lower[low] = file
		if _, _, block := splitBlock(t.Name); !block && len(out[file]) > 0 {
			return nil, fmt.Errorf("%w: two tensors of the name %.64q", ErrShard, t.Name)
		}
		out[file] = append(out[file], t)
	}
	for file, list := range out {
		laid, err := layOut(list, align)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrShard, file, err)
		}
		out[file] = laid
	}
	return out, nil
}

// layOut places the tensors of one file.
func layOut(list []Tensor, align uint64) ([]Tensor, error) {
	infos := make([]gguf.TensorInfo, len(list))
	for i, t := range list {
		infos[i] = gguf.TensorInfo{Name: t.Name, Dims: t.Dims, Type: gguf.Type(t.Type)}
	}
	infos, _, err := gguf.Layout(infos, align)
	if err != nil {
		return nil, err
	}
	out := make([]Tensor, len(list))
	for i, t := range list {
		t.Offset = infos[i].Offset
		if t.Bytes, err = infos[i].Bytes(); err != nil {
			return nil, err
		}
		out[i] = t
	}
	return out, nil
}

// FileSize is the size of a file that holds these tensors, as Layout places
// them.
func FileSize(tensors []Tensor, align uint64) int64 {
	var end uint64
	for _, t := range tensors {
		end = max(end, t.Offset+(t.Bytes+align-1)/align*align)
	}
	return HeaderRegion + int64(end)
}

// maxNameLen bounds tensor names (GGML_MAX_NAME less the final zero byte).
const maxNameLen = 63

// checkName refuses names that would leave the folder or meet its other files.
func checkName(name string) error {
	bad := name == "" || len(name) > maxNameLen || name[0] == '.'
	for _, c := range []byte(name) {
		letter := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		bad = bad || !letter && c != '.' && c != '_' && c != '-'
	}
	low := strings.ToLower(name)
	bad = bad || low == "meta" || strings.HasPrefix(low, "stem-") || strings.HasPrefix(low, "standin-")
	// A name that looks like another layer's file.
	if _, isLayer := LayerOf(low + ".gguf"); isLayer {
		bad = true
	}
	if bad {
		return fmt.Errorf("%w: tensor name %.64q", ErrShard, name)
	}
	return nil
}
