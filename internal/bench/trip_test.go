package bench

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"testing"
	"time"

	"neuron/engine/seam/seamclient"
)

// BenchmarkTrip is the round trip with both ends in one process, for profiles.
func BenchmarkTrip(b *testing.B) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	in, toPeer := io.Pipe()
	fromPeer, out := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- Peer(context.Background(), in, out) }()
	fmt.Fprintln(toPeer, hex.EncodeToString(pub))
	line, err := bufio.NewReader(fromPeer).ReadBytes('\n')
	if err != nil {
		b.Fatal(err)
	}
	var g greeting
	if err := json.Unmarshal(line, &g); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		toPeer.Close()
		if err := <-ended; err != nil {
			b.Error(err)
		}
	})
	b.Run("tcp", func(b *testing.B) {
		t, err := dialTCP(b.Context(), g.TCP)
		if err != nil {
			b.Fatal(err)
		}
		defer t.conn.Close()
		bench(b, t.trips)
	})
	for name, opts := range map[string][]seamclient.Option{"post": nil, "upgrade": {seamclient.WithUpgrade()}} {
		b.Run(name, func(b *testing.B) {
			t, err := dialSeam(b.Context(), g, key, opts...)
			if err != nil {
				b.Fatal(err)
			}
			defer t.close()
			bench(b, t.trips)
		})
	}
}

func bench(b *testing.B, trips func(int) (time.Duration, error)) {
	b.ReportAllocs()
	b.ResetTimer()
	if _, err := trips(b.N); err != nil {
		b.Fatal(err)
	}
}
