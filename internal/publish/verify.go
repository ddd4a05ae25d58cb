package publish

import (
	"context"
	"os"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
)

// Damage is what Verify found in one file.
type Damage struct {
	File   int  // index in the manifest
	Header bool // the bytes before the tensors differ
	// Tensors are indices of those whose bytes differ.
	Tensors []int
	// Size is the file's size when it is not the manifest's, else -1; nothing
	// else is checked then.
	Size int64
}

// Verify compares files, given in the manifest's order, with a manifest that
// passed Check. Nil means that all bytes are the publisher's. A file whose
// header and tensors are right can differ in padding alone; it is listed
// without them.
func Verify(ctx context.Context, m *manifest.Manifest, paths []string, o Options) ([]Damage, error) {
	if len(paths) != len(m.Files) {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "%s has %d files, %d were given", m.Name, len(m.Files), len(paths))
	}
	var out []Damage
	for i, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			return nil, openError(p, err)
		}
		if st.Size() != m.Files[i].Size {
			out = append(out, Damage{File: i, Size: st.Size()})
		}
	}
	if out != nil {
		return out, nil
	}
	s, err := hashFiles(ctx, paths, m, plan{tensors: true, workers: o.Workers, progress: o.Progress})
	if err != nil {
		return nil, err
	}
	k := 0
	for i, f := range m.Files {
		d := Damage{File: i, Size: -1, Header: s.headers[i] != f.HeaderSHA256}
		for ; k < len(m.Tensors) && m.Tensors[k].File == i; k++ {
			if s.tensors[k] != m.Tensors[k].SHA256 {
				d.Tensors = append(d.Tensors, k)
			}
		}
		if d.Header || d.Tensors != nil || s.files[i] != f.SHA256 {
			out = append(out, d)
		}
	}
	return out, nil
}
