package worker

import (
	"fmt"
	"os"
	"testing"
	"time"
	"runtime"
	"strings"

	"neuron/llama"
)

func TestZProbe(t *testing.T) {
	src := os.Getenv("GBNF")
	if src == "" {
		t.Skip()
	}
	src = strings.ReplaceAll(src, "@BIG@", os.Getenv("BIG"))
	v := guideVocab(t)
	start := time.Now()
	g, err := llama.Grammar(v, src, "root")
	fmt.Println("parse", err, time.Since(start))
	if err != nil {
		return
	}
	text := os.Getenv("TEXT")
	for i := 0; i < 40; i++ {
		c := llama.Candidates{Data: make([]llama.TokenData, v.N())}
		for id := range c.Data { c.Data[id].ID = int32(id) }
		start = time.Now()
		if err := g.Apply(&c); err != nil { fmt.Println(err); return }
		a := time.Since(start)
		ids, _ := v.Tokenize(text, false, false)
		start = time.Now()
		if err := g.Accept(ids[0]); err != nil { fmt.Println(i, a, err); return }
		if i%5 == 0 || a > 50*time.Millisecond { fmt.Println(i, "apply", a, "accept", time.Since(start)) }
		if time.Since(start)+a > 3*time.Second { return }
	}
	runtime.KeepAlive(g)
}
