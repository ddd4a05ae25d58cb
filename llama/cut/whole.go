package cut

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"neuron/internal/atomicfile"
)

// Whole is a file of a model that is used where it lies, in one piece.
type Whole struct {
	Path   string
	Size   int64
	SHA256 string // 64 hex digits
}

// VerifyWhole compares files with their size and hash and returns the indices
// of those that differ or are missing. They are other people's files: they are
// only read, and one that was sound is remembered in the file recordPath ("":
// nowhere) by path, size, times and inode, but not when it was written in the
// last seconds before (a write in the same tick would not show).
func VerifyWhole(ctx context.Context, recordPath string, files []Whole, o VerifyOptions) (bad []int, err error) {
	rec := map[string]record{}
	if recordPath != "" {
		if raw, err := os.ReadFile(recordPath); err == nil {
			rec = parseRecords(raw)
		}
	}
	type todo struct {
		index int
		key   string
		f     *os.File
		stamp stamp
	}
	var list []*todo
	defer func() {
		for _, t := range list {
			_ = t.f.Close() // only read
		}
	}()
	wrong := make([]bool, len(files))
	var total int64
	for i, w := range files {
		key, err := filepath.Abs(w.Path)
		if err != nil {
			return nil, fmt.Errorf("model file: %w", err)
		}
		f, err := os.Open(w.Path)
		if err != nil {
			if damage(err) {
				wrong[i] = true
				continue
			}
			return nil, fmt.Errorf("model file: %w", err)
		}
		st, err := stampOf(f)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		r, known := rec[key]
		switch {
		case st.Size != w.Size:
			wrong[i] = true
		case known && !o.Again && r.Digest == w.SHA256 && r.stamp == st:
		default:
			list = append(list, &todo{i, key, f, st})
			total += st.Size
			continue
		}
		_ = f.Close() // only read
	}

	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		next int
		done int64
	)
	work := func() error {
		buf := make([]byte, hashBlock)
		for {
			mu.Lock()
			i := next
			next++
			mu.Unlock()
			if i >= len(list) {
				return nil
			}
			t := list[i]
			sum, err := hashStream(ctx, t.f, buf, func(n int64) {
				mu.Lock()
				defer mu.Unlock()
				done += n
				if o.Progress != nil {
					o.Progress(done, total)
				}
			})
			if err != nil && !damage(err) {
				return fmt.Errorf("read %s: %w", t.f.Name(), err)
			}
			after, statErr := stampOf(t.f)
			if statErr != nil {
				return statErr
			}
			mu.Lock()
			sound := err == nil && sum == files[t.index].SHA256 && after == t.stamp
			wrong[t.index] = !sound
			if delete(rec, t.key); sound && after.settled(time.Now()) {
				rec[t.key] = record{stamp: after, Digest: sum}
			}
			mu.Unlock()
		}
	}
	for range min(workers, len(list)) {
		wg.Go(func() {
			if err := o.run(work); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if recordPath != "" && len(list) > 0 {
		if err := writeWhole(recordPath, rec); err != nil {
			return nil, err
		}
	}
	for i, w := range wrong {
		if w {
			bad = append(bad, i)
		}
	}
	return bad, nil
}

func writeWhole(path string, rec map[string]record) error {
	raw, err := json.MarshalIndent(recordFile{Version: recordVersion, Files: rec}, "", " ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := atomicfile.Write(path, append(raw, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func hashStream(ctx context.Context, r io.Reader, buf []byte, progress func(int64)) (string, error) {
	h := sha256.New()
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		n, err := r.Read(buf)
		h.Write(buf[:n])
		if n > 0 {
			progress(int64(n))
		}
		if errors.Is(err, io.EOF) {
			return hex.EncodeToString(h.Sum(nil)), nil
		}
		if err != nil {
			return "", err
		}
	}
}
