package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
	"neuron/llama/cut"
)

// cacheFile remembers hashes of model files that have not changed since.
const cacheFile = "digests.json"

// maxCached bounds the cache; beyond it the cache starts anew.
const maxCached = 4096

type cached struct {
	Size     int64  `json:"size"`
	Modified int64  `json:"modified"` // unix nanoseconds
	SHA256   string `json:"sha256"`
}

// digest is the model id of files and the hash of each.
func digest(ctx context.Context, files []string, cacheDir string, log *slog.Logger) (protocol.ModelID, []cut.Whole, error) {
	cache := readCache(cacheDir, log)
	changed := false
	sums, whole := make([][sha256.Size]byte, len(files)), make([]cut.Whole, len(files))
	for i, path := range files {
		abs, err := filepath.Abs(path)
		if err != nil {
			return "", nil, fmt.Errorf("model path: %w", err)
		}
		st, err := os.Stat(path)
		if err != nil {
			return "", nil, openError(path, err)
		}
		whole[i] = cut.Whole{Path: abs, Size: st.Size()}
		if c, ok := cache[abs]; ok && c.Size == st.Size() && c.Modified == st.ModTime().UnixNano() {
			if sum, err := hex.DecodeString(c.SHA256); err == nil && len(sum) == sha256.Size {
				copy(sums[i][:], sum)
				continue
			}
		}
		if sums[i], err = hashFile(ctx, path); err != nil {
			return "", nil, err
		}
		cache[abs] = cached{Size: st.Size(), Modified: st.ModTime().UnixNano(), SHA256: hex.EncodeToString(sums[i][:])}
		changed = true
	}
	if changed && cacheDir != "" {
		if err := writeCache(cacheDir, cache); err != nil {
			log.Warn("Model hashes are not remembered", "error", err)
		}
	}
	for i := range whole {
		whole[i].SHA256 = hex.EncodeToString(sums[i][:])
	}
	return protocol.ModelIDOf(sums), whole, nil
}

func hashFile(ctx context.Context, path string) (sum [sha256.Size]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, openError(path, err)
	}
	defer f.Close()
	h := sha256.New()
	buf := make([]byte, 1<<20)
	for {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		n, err := f.Read(buf)
		h.Write(buf[:n])
		if errors.Is(err, io.EOF) {
			h.Sum(sum[:0])
			return sum, nil
		}
		if err != nil {
			return sum, fmt.Errorf("hash %s: %w", path, err)
		}
	}
}

// readCache never fails: a damaged cache costs hashing again.
func readCache(dir string, log *slog.Logger) map[string]cached {
	out := map[string]cached{}
	if dir == "" {
		return out
	}
	raw, err := os.ReadFile(filepath.Join(dir, cacheFile))
	if err == nil {
		err = json.Unmarshal(raw, &out)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		log.Warn("Remembered model hashes are unreadable, hashing again", "error", err)
		return map[string]cached{}
	}
	if len(out) > maxCached {
		return map[string]cached{}
	}
	return out
}

func writeCache(dir string, c map[string]cached) error {
	raw, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, cacheFile), raw)
}
