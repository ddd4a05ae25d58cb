package worker

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // BEP 3
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"neuron/internal/torrentfile"
)

const webPiece = 1 << 14

// webTorrent is a torrent of two files that share a piece.
func webTorrent(t testing.TB) (info *torrentfile.Info, files [][]byte) {
	r := rand.NewChaCha8([32]byte{1})
	info = &torrentfile.Info{Name: "model", PieceLength: webPiece}
	all := []byte{}
	for i, n := range []int{5*webPiece + 100, 3 * webPiece} {
		b := make([]byte, n)
		if _, err := r.Read(b); err != nil {
			t.Fatal(err)
		}
		files = append(files, b)
		info.Files = append(info.Files, torrentfile.File{Path: []string{fmt.Sprintf("file %d.gguf", i)}, Length: int64(n)})
		all = append(all, b...)
	}
	for p := 0; p < len(all); p += webPiece {
		sum := sha1.Sum(all[p:min(len(all), p+webPiece)]) //nolint:gosec // BEP 3
		info.Hashes = append(info.Hashes, sum[:]...)
	}
	return info, files
}

// webReport is what an owner was told.
type webReport struct {
	op *opened

	mu    sync.Mutex
	lied  []error
	fails []error
	parts map[int]bool
	good  int
}

func (o *webReport) pieceAt(off int64) (index int, from, to int64, sum [sha1.Size]byte) {
	return o.op.pieceAt(off)
}

func (o *webReport) webFault(_ string, f webFault, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if f == webLied {
		o.lied = append(o.lied, why)
	} else {
		o.fails = append(o.fails, why)
	}
}

func (o *webReport) webPart(_ string, piece int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.parts[piece] = true
}

func (o *webReport) webGood(string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.good++
}

// webAsk fetches a range of the first file through a guard, as the library
// does, from a server that serves with h.
func webAsk(t *testing.T, stall time.Duration, from, to int64, h func(w http.ResponseWriter, r *http.Request, file []byte)) (*webReport, []byte, error) {
	t.Helper()
	info, files := webTorrent(t)
	mux := http.NewServeMux()
	mux.HandleFunc("/model/", func(w http.ResponseWriter, r *http.Request) {
		for i, f := range info.Files {
			if r.URL.Path == "/model/"+f.Path[0] {
				h(w, r, files[i])
				return
			}
		}
		http.NotFound(w, r)
	})
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { h(w, r, files[0]) })
	srv := httptest.NewServer(mux)
	defer srv.Close()
	g := newWebGuard(slog.New(slog.DiscardHandler))
	defer g.close()
	g.stall = stall
	rep := &webReport{op: &opened{info: info}, parts: map[int]bool{}}
	if !g.add(rep, srv.URL+"/", info) {
		t.Fatal("the web seed is refused")
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/model/file%200.gguf", nil)
	if err != nil {
		t.Fatal(err)
	}
	if from != 0 || to != info.Files[0].Length-1 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to))
	}
	resp, err := (&http.Client{Transport: g}).Do(req)
	if err != nil {
		return rep, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode/100 == 2 && !bytes.Equal(b, files[0][from:to+1]) {
		t.Errorf("%d wrong bytes came through without an error", len(b))
	}
	return rep, b, err
}

func serve(w http.ResponseWriter, r *http.Request, file []byte) {
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(file))
}

func TestHonestWebSeed(t *testing.T) {
	size := int64(5*webPiece + 100)
	for name, c := range map[string]struct {
		from, to int64
		parts    int
	}{
		"whole file":      {0, size - 1, 1}, // the last piece goes on in the next file
		"whole pieces":    {webPiece, 3*webPiece - 1, 0},
		"inside a piece":  {webPiece + 5, 3*webPiece - 1, 1},
		"a few bytes":     {3, 9, 0}, // piece 0 ends later: nothing is known of it
		"last bytes only": {size - 50, size - 1, 1},
	} {
		rep, b, err := webAsk(t, webStall, c.from, c.to, serve)
		if err != nil || int64(len(b)) != c.to-c.from+1 || len(rep.lied)+len(rep.fails) != 0 || rep.good != 1 {
			t.Errorf("%s: %d bytes, %v, report %+v", name, len(b), err, rep)
		}
		if name != "a few bytes" && len(rep.parts) != c.parts {
			t.Errorf("%s: parts of pieces %v, want %d", name, rep.parts, c.parts)
		}
	}
}

func TestRedirectedWebSeed(t *testing.T) {
	rep, b, err := webAsk(t, webStall, webPiece, 3*webPiece-1, func(w http.ResponseWriter, r *http.Request, file []byte) {
		if r.URL.Path != "/moved" {
			http.Redirect(w, r, "/moved", http.StatusFound)
			return
		}
		serve(w, r, file)
	})
	if err != nil || len(b) != 2*webPiece || len(rep.lied)+len(rep.fails) != 0 {
		t.Errorf("%d bytes, %v, report %+v", len(b), err, rep)
	}
}

func TestWebSeedLiars(t *testing.T) {
	const from, to = webPiece, 3*webPiece - 1
	partial := func(w http.ResponseWriter, a, b, total int) {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", a, b, total))
		w.WriteHeader(http.StatusPartialContent)
	}
	for name, h := range map[string]func(w http.ResponseWriter, r *http.Request, file []byte){
		"200 with the whole body": func(w http.ResponseWriter, _ *http.Request, file []byte) { _, _ = w.Write(file) },
		"206 with wrong content": func(w http.ResponseWriter, _ *http.Request, file []byte) {
			partial(w, from, to, len(file))
			_, _ = w.Write(make([]byte, to-from+1))
		},
		"206 with one wrong bit": func(w http.ResponseWriter, _ *http.Request, file []byte) {
			b := bytes.Clone(file[from : to+1])
			b[len(b)-1] ^= 1
			partial(w, from, to, len(file))
			_, _ = w.Write(b)
		},
		"206 with another range": func(w http.ResponseWriter, _ *http.Request, file []byte) {
			partial(w, 0, to-from, len(file))
			_, _ = w.Write(file[:to-from+1])
		},
		"206 of a file of another size": func(w http.ResponseWriter, _ *http.Request, file []byte) {
			partial(w, from, to, len(file)+1)
			_, _ = w.Write(file[from : to+1])
		},
		"206 without a range": func(w http.ResponseWriter, _ *http.Request, file []byte) {
			w.WriteHeader(http.StatusPartialContent)
			_, _ = w.Write(file[from : to+1])
		},
		"206 with another length": func(w http.ResponseWriter, _ *http.Request, file []byte) {
			w.Header().Set("Content-Length", "5")
			partial(w, from, to, len(file))
			_, _ = w.Write(file[from : from+5])
		},
		"416": func(w http.ResponseWriter, _ *http.Request, _ []byte) {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
		},
		"packed": func(w http.ResponseWriter, _ *http.Request, file []byte) {
			w.Header().Set("Content-Encoding", "gzip")
			partial(w, from, to, len(file))
			_, _ = w.Write(file[from : to+1])
		},
	} {
		rep, _, err := webAsk(t, webStall, from, to, h)
		if err == nil || len(rep.lied) != 1 || len(rep.fails) != 0 || rep.good != 0 {
			t.Errorf("%s: %v, report %+v", name, err, rep)
		}
	}
}

func TestWebSeedThatFails(t *testing.T) {
	const from, to = webPiece, 3*webPiece - 1
	begin := func(w http.ResponseWriter, file []byte) {
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to, len(file)))
		w.Header().Set("Content-Length", fmt.Sprint(to-from+1))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(file[from : from+100])
		w.(http.Flusher).Flush()
	}
	for name, h := range map[string]func(w http.ResponseWriter, r *http.Request, file []byte){
		"never answers": func(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() },
		"stalls": func(w http.ResponseWriter, r *http.Request, file []byte) {
			begin(w, file)
			<-r.Context().Done()
		},
		"cuts": func(w http.ResponseWriter, _ *http.Request, file []byte) {
			begin(w, file)
			panic(http.ErrAbortHandler)
		},
	} {
		rep, _, err := webAsk(t, 200*time.Millisecond, from, to, h)
		if err == nil || len(rep.fails) != 1 || len(rep.lied) != 0 || rep.good != 0 {
			t.Errorf("%s: %v, report %+v", name, err, rep)
		}
	}
}

// An error page says nothing about content; the library knows what to do.
func TestWebSeedErrorPagePasses(t *testing.T) {
	rep, b, err := webAsk(t, webStall, webPiece, 3*webPiece-1, func(w http.ResponseWriter, _ *http.Request, _ []byte) {
		http.Error(w, "busy", http.StatusServiceUnavailable)
	})
	if err != nil || string(b) != "busy\n" || len(rep.lied)+len(rep.fails)+rep.good != 0 {
		t.Errorf("%q, %v, report %+v", b, err, rep)
	}
}

func TestGuardAsksNobodyElse(t *testing.T) {
	g := newWebGuard(slog.New(slog.DiscardHandler))
	defer g.close()
	info, _ := webTorrent(t)
	rep := &webReport{op: &opened{info: info}}
	for _, bad := range []string{"ftp://a/", "http://user@a/", "http://a/model", "http:///", "://"} {
		if g.add(rep, bad, info) {
			t.Errorf("%s is taken", bad)
		}
	}
	if !g.add(rep, "http://127.0.0.1:1/", info) {
		t.Fatal("a web seed is refused")
	}
	g.remove(rep)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:1/model/file%200.gguf", nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := g.RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Error("a removed web seed is asked")
	}
}
