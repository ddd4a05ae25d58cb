package exec

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"neuron/llama"
	"neuron/llama/cut"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

func mem() string {
	b, _ := os.ReadFile("/proc/self/smaps_rollup")
	s, _ := os.ReadFile("/proc/self/status")
	out := ""
	for _, l := range strings.Split(string(b)+string(s), "\n") {
		for _, k := range []string{"Rss:", "Pss_Anon:", "Pss_File:", "Anonymous:", "RssAnon", "RssFile", "Private_Clean", "Private_Dirty"} {
			if strings.HasPrefix(l, k) {
				f := strings.Fields(l)
				out += f[0] + f[1] + " "
			}
		}
	}
	return out
}

func TestScratch(t *testing.T) {
	dir, err := llama.NativeDir()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	llama.SetLog(func(l llama.LogLevel, s string) { lines = append(lines, fmt.Sprint(l, " ", s)) })
	if err := llama.Load(dir); err != nil {
		t.Fatal(err)
	}
	lines = nil
	s, _ := synth.Preset("tiny-llama")
	s.Heads, s.KVHeads, s.HeadDim, s.Context = 16, 16, 128, 8192
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := synth.Write(path, s, synth.Options{Type: gguf.TypeQ4_0}); err != nil {
		t.Fatal(err)
	}
	m, _ := gguf.OpenModel(path)
	store, err := cut.Import(context.Background(), m, "x", filepath.Join(t.TempDir(), "s"), 0, 8, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]int{{0, 2}, {2, 8}} {
		p, err := store.Prepare(r[0], r[1])
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("== before load", r, mem())
		st, err := Load(Config{Paths: p.Paths, First: r[0], Last: r[1], Layers: 8, ExitNode: "l_out", Threads: 1, ChunkRows: 256})
		if err != nil {
			t.Fatal(err)
		}
		p.Release()
		fmt.Println("loaded size", st.Model().Size(), mem())
		for _, l := range lines {
			if strings.Contains(l, "buffer size") || strings.Contains(l, "size =") {
				fmt.Println("   ", l)
			}
		}
		for _, c := range [][2]int{{256, 1}, {4096, 1}, {4096, 4}, {1024, 1}} {
			lines = nil
			fmt.Println("-- pool", c, mem())
			pl, err := st.NewPool(c[0], c[1], !st.Tail())
			if err != nil {
				t.Fatal(err)
			}
			fmt.Println("   made", mem())
			for _, l := range lines {
				if strings.Contains(l, "buffer size") || strings.Contains(l, "size =") || strings.Contains(l, "nodes")||strings.Contains(l, "flash") || strings.Contains(l, "splits") {
					fmt.Println("   ", l)
				}
			}
			work := Work{Logits: true}
			if st.Head() {
				work.IDs = make([]int32, 64)
			} else {
				work.Hidden = make([]float32, 64*st.Width())
			}
			if _, err := pl.Run(st.cfg.Last, []Work{work}); err != nil {
				t.Fatal(err)
			}
			fmt.Println("   ran 64", mem())
			work.Pos = 64
			if c[0] > 256 {
				if st.Head() {
					work.IDs = make([]int32, 256)
				} else {
					work.Hidden = make([]float32, 256*st.Width())
				}
				if _, err := pl.Run(st.cfg.Last, []Work{work}); err != nil {
					t.Fatal(err)
				}
				fmt.Println("   ran 256", mem())
			}
			pl.Close()
			fmt.Println("   closed", mem())
		}
		st.Close()
		fmt.Println("freed", mem())
	}
}
