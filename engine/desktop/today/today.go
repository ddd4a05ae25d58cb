// Package today counts what this computer does for others: rows through its
// layers, and bytes, of the last seconds and of the local day. The day's counts
// survive a restart.
//
// engine/desktop owns the one Book of a running engine; the package knows frames
// and stages (engine/seam) only to count them.
package today

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"neuron/engine/policy"
	"neuron/internal/atomicfile"
)

// File is the name of the file in the data folder.
const File = "today.json"

// window is over how many seconds a rate is taken.
const window = 10

// Book counts. It is safe for concurrent use and has no goroutine.
type Book struct {
	path string
	now  func() time.Time

	mu sync.Mutex
	// Protected by mu.
	day   counts
	saved counts
	rows  [window]int64 // by the second, modulo window
	last  int64         // the newest second in rows
}

// counts are what the file holds.
type counts struct {
	policy.Usage       // the day, and bytes in both directions
	Tokens       int64 `json:"tokens"`
}

// maxFile bounds the file.
const maxFile = 4 << 10

// Open reads the counts of the folder. A file that is missing or damaged is a
// day without any: err says so and the book works.
func Open(dir string, now func() time.Time) (b *Book, err error) {
	b = &Book{path: filepath.Join(dir, File), now: now}
	f, err := os.Open(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return b, nil
	}
	if err != nil {
		return b, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return b, err
	}
	b.day, err = parse(raw)
	b.saved = b.day
	return b, err
}

func parse(raw []byte) (counts, error) {
	var c counts
	if err := json.Unmarshal(raw, &c); err != nil {
		return counts{}, err
	}
	if c.Bytes < 0 || c.Tokens < 0 {
		return counts{}, errors.New("a negative count")
	}
	return c, nil
}

// Add counts rows through this computer's layers, and bytes.
func (b *Book) Add(rows, bytes int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if usage := b.day.Add(now, bytes); usage.Day != b.day.Day {
		b.day = counts{Usage: usage}
	} else {
		b.day.Usage = usage
	}
	b.day.Tokens += rows
	b.turnLocked(now)
	b.rows[b.last%window] += rows
}

// turnLocked forgets the seconds that are out of the window.
func (b *Book) turnLocked(now time.Time) {
	second := now.Unix()
	if second < b.last || second >= b.last+window { // the clock was set, or a long pause
		b.rows, b.last = [window]int64{}, second
		return
	}
	for b.last < second {
		b.last++
		b.rows[b.last%window] = 0
	}
}

// Rate is rows per second over the last ten seconds.
func (b *Book) Rate() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.turnLocked(b.now())
	sum := int64(0)
	for _, n := range b.rows {
		sum += n
	}
	return float64(sum) / window
}

// Tokens are the rows of the local day.
func (b *Book) Tokens() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.day.Day != b.now().Format(time.DateOnly) {
		return 0
	}
	return b.day.Tokens
}

// Usage is what was transferred.
func (b *Book) Usage() policy.Usage {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.day.Usage
}

// Save writes the counts, where they have changed.
func (b *Book) Save() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.day == b.saved {
		return nil
	}
	raw, err := json.Marshal(b.day)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(b.path, raw); err != nil {
		return err
	}
	b.saved = b.day
	return nil
}
