package catalog

import (
	"os"
	"path/filepath"

	"neuron/engine/manifest"
)

// Kept lists the models that were asked for before, by folder: those whose
// kept manifest is sound and signed by a key that is still trusted.
func (c *Client) Kept() map[string]*manifest.Manifest {
	out := map[string]*manifest.Manifest{}
	list, err := os.ReadDir(c.o.Dir)
	if err != nil {
		return out // the folder comes with the first model
	}
	for _, d := range list {
		dir := filepath.Join(c.o.Dir, d.Name())
		if k, err := c.readKept(dir); err == nil {
			out[dir] = k.manifest
		}
	}
	return out
}
