package catalog

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
	"neuron/internal/syserr"
	"neuron/internal/torrentfile"
)

// Names of the two files in a model's folder.
const (
	ManifestFile = "manifest.json"
	TorrentFile  = "model.torrent"
)

// folder is where a model's files are kept.
func (c *Client) folder(id protocol.ModelID) string { return filepath.Join(c.o.Dir, id.Short()) }

// keep writes the two files, each in one step. The manifest comes last: a
// folder with one is complete, and what a crash in between leaves of two
// generations does not pass readKept.
func (c *Client) keep(m *manifest.Manifest, raw, torrent []byte) (dir string, err error) {
	dir = c.folder(m.Model)
	err = os.MkdirAll(dir, 0o755)
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, TorrentFile), torrent)
	}
	if err == nil {
		err = atomicfile.Write(filepath.Join(dir, ManifestFile), raw)
	}
	switch {
	case err == nil:
		return dir, nil
	case syserr.DiskFull(err):
		return "", protocol.Errorf(protocol.CodeDiskFull, "keep the manifest of %s: no space left: %w", m.Name, err)
	default:
		return "", protocol.Errorf(protocol.CodeDataFolder, "keep the manifest of %s: %w", m.Name, err)
	}
}

// copied is a model's kept files.
type copied struct {
	manifest                      *manifest.Manifest
	dir                           string
	manifestSHA256, torrentSHA256 string
}

// kept looks a model up among the kept ones, by id or name; nil when there is
// none that passes all checks.
func (c *Client) kept(ref string) *copied {
	if id, err := protocol.ParseModelID(ref); err == nil {
		return c.usable(c.folder(id), ref)
	}
	dirs, err := os.ReadDir(c.o.Dir)
	if err != nil {
		return nil // the first model makes the folder
	}
	for _, d := range dirs {
		if k := c.usable(filepath.Join(c.o.Dir, d.Name()), ref); k != nil {
			return k
		}
	}
	return nil
}

// usable reads a folder and wants the model that ref names in it.
func (c *Client) usable(dir, ref string) *copied {
	k, err := c.readKept(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		c.o.Logger.Warn("A kept manifest is not usable", "dir", filepath.Base(dir), "error", err)
		return nil
	case string(k.manifest.Model) != ref && k.manifest.Name != ref || c.folder(k.manifest.Model) != dir:
		return nil
	}
	return k
}

func (c *Client) readKept(dir string) (*copied, error) {
	raw, err := readBounded(filepath.Join(dir, ManifestFile), manifest.MaxBytes)
	if err != nil {
		return nil, err
	}
	torrent, err := readBounded(filepath.Join(dir, TorrentFile), torrentfile.MaxBytes)
	if err != nil {
		return nil, err
	}
	m, err := c.check(raw)
	if err != nil {
		return nil, err
	}
	if err := torrentfile.CheckTorrent(torrent, m); err != nil {
		return nil, err
	}
	return &copied{m, dir, hashOf(raw), hashOf(torrent)}, nil
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func readBounded(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(raw)) > most {
		err = fmt.Errorf("%s has more than %d bytes", filepath.Base(path), most)
	}
	return raw, err
}
