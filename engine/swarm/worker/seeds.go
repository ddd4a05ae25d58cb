package worker

import (
	"crypto/sha1" //nolint:gosec // BEP 3 defines piece hashes by SHA-1; the load gate uses SHA-256
	"slices"
	"time"
)

// seed is one web seed of a torrent.
type seed struct {
	url string

	// Guarded by model.mu.
	lied    bool      // it is not asked again
	until   time.Time // it is not asked before
	strikes int       // failures in a row
	blamed  int       // pieces that failed and of which it gave a part
	dropped int       // how often it was dropped
	parts   map[int]bool
	has     bool // the library has it now
}

const (
	mostSeeds = 32
	// firstRest is how long a web seed that stalled or cut is left alone; the
	// time doubles up to longRest while it does nothing else.
	firstRest = 15 * time.Second
	longRest  = 30 * time.Minute
	// mostBlamed pieces that failed with part of them from a web seed are
	// taken for its fault. Whole pieces are judged by their own hash.
	mostBlamed = 3
)

// addSeeds registers the torrent's web seeds.
func (op *opened) addSeeds() {
	var list []*seed
	for _, u := range op.info.WebSeeds[:min(len(op.info.WebSeeds), mostSeeds)] {
		if op.m.client.web.add(op, u, op.info) {
			list = append(list, &seed{url: u, parts: map[int]bool{}})
		}
	}
	op.m.mu.Lock()
	op.seeds = list
	op.m.mu.Unlock()
}

// setSeeds gives the library those that may be asked now. It can only take all
// of them away together.
func (op *opened) setSeeds() {
	now := time.Now()
	op.m.mu.Lock()
	var urls []string
	change, out := false, 0
	for _, s := range op.seeds {
		use := !s.lied && !now.Before(s.until)
		if use {
			urls = append(urls, s.url)
		} else if !s.lied {
			out++
		}
		if use != s.has {
			change, s.has = true, use
		}
	}
	op.seedsOut = out
	op.m.mu.Unlock()
	if change {
		op.torrent.RemoveWebSeeds()
		op.torrent.AddWebSeeds(urls)
	}
}

// seedDrops counts how often web seeds were dropped. The caller holds m.mu.
func (op *opened) seedDrops() (n int) {
	for _, s := range op.seeds {
		n += s.dropped
	}
	return n
}

// with runs f on the seed under the lock, if there is one.
func (op *opened) with(url string, f func(*seed)) {
	op.m.mu.Lock()
	defer op.m.mu.Unlock()
	if i := slices.IndexFunc(op.seeds, func(s *seed) bool { return s.url == url }); i >= 0 {
		f(op.seeds[i])
	}
}

// blameSeeds counts a failed piece against the web seeds that gave part of it.
// The caller holds m.mu.
func (op *opened) blameSeeds(piece int) {
	for _, s := range op.seeds {
		if !s.parts[piece] || s.lied {
			continue
		}
		delete(s.parts, piece)
		if s.blamed++; s.blamed >= mostBlamed {
			s.lied = true
			s.dropped++
			op.m.log.Warn("Web seed is not asked again", "error", errWebHash)
		}
	}
}

// pieceAt implements webOwner.
func (op *opened) pieceAt(offset int64) (index int, from, to int64, sum [sha1.Size]byte) {
	index = int(offset / op.info.PieceLength)
	from = int64(index) * op.info.PieceLength
	return index, from, min(from+op.info.PieceLength, op.info.Length()), op.hash(index)
}

// webFault implements webOwner.
func (op *opened) webFault(url string, f webFault, why error) {
	op.with(url, func(s *seed) {
		if !s.has {
			return // of a request that was still running
		}
		s.dropped++
		if f == webLied {
			s.lied = true
			op.m.log.Warn("Web seed is not asked again", "error", why)
			return
		}
		rest := min(firstRest<<min(s.strikes, 10), longRest)
		s.strikes++
		s.until = time.Now().Add(rest)
		op.m.log.Info("Web seed is left alone for a while", "error", why, "seconds", int(rest/time.Second))
	})
	op.m.wake()
}

// webPart implements webOwner.
func (op *opened) webPart(url string, piece int) {
	op.with(url, func(s *seed) {
		if len(s.parts) < 1<<16 {
			s.parts[piece] = true
		}
	})
}

// webGood implements webOwner.
func (op *opened) webGood(url string) { op.with(url, func(s *seed) { s.strikes = 0 }) }
