package swarm_test

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/swarm"

	"github.com/google/go-cmp/cmp"
)

func fullWanted() swarm.Wanted {
	return swarm.Wanted{
		Version: 3, Listen: "127.0.0.1:6881", Paused: true,
		Limits: swarm.Limits{UpBytes: 1, DownBytes: 2, Peers: 3, DiskBytes: 4, KeepFree: 5},
		Models: []swarm.Model{{
			Model: someModel, Dir: "/shards/a", Ranges: []protocol.Range{{First: 0, Last: 4}}, Adopted: []string{"/m.gguf"},
			Announce: []string{"http://127.0.0.1/announce"}, Peers: []string{"127.0.0.1:1"}, Damaged: []swarm.Damaged{{File: "layer-00001.gguf", Number: 2}},
		}},
	}
}

func fullStatus() swarm.Status {
	return swarm.Status{
		Version: 3, Time: time.Unix(1, 0).UTC(), Addr: "127.0.0.1:6881", Error: &protocol.Error{Code: protocol.CodePortInUse, Message: "m"},
		Models: []swarm.ModelStatus{{
			Model: someModel, State: swarm.StateBlocked, Error: &protocol.Error{Code: protocol.CodeDiskFull, Message: "m"},
			Files: []swarm.FileStatus{{Name: "f", Layer: -1, Bytes: 2, Done: 1}}, Bytes: 9, Done: 8, Missing: 1, Received: 1, Sent: 2, Wasted: 3,
			DownRate: 4, UpRate: 5, Peers: 6, Seeds: 7, Dropped: 8, ETASeconds: -1, RepairNumber: 9,
		}},
	}
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// FuzzWanted: what is accepted passes its check and survives a round trip.
func FuzzWanted(f *testing.F) {
	f.Add(marshal(f, fullWanted()))
	f.Add([]byte(`{"listen":":0","models":[]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w, err := swarm.ParseWanted(b)
		if err != nil {
			return
		}
		again, err := swarm.ParseWanted(marshal(t, w))
		if err != nil {
			t.Fatalf("its own output is refused: %v", err)
		}
		if d := cmp.Diff(marshal(t, w), marshal(t, again)); d != "" {
			t.Error(d)
		}
	})
}

// FuzzStatus: figures that a window shows are never negative or above 100 %.
func FuzzStatus(f *testing.F) {
	f.Add(marshal(f, fullStatus()))
	f.Add([]byte(`{"models":[{"model":"","state":"paused"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := swarm.ParseStatus(b)
		if err != nil {
			return
		}
		for _, m := range s.Models {
			if m.Done < 0 || m.Done > m.Bytes || m.DownRate < 0 || m.Peers < 0 || m.State == "" {
				t.Errorf("figures %+v", m)
			}
		}
		if _, err := swarm.ParseStatus(marshal(t, s)); err != nil {
			t.Errorf("its own output is refused: %v", err)
		}
	})
}

func TestMessagesRoundTrip(t *testing.T) {
	w, err := swarm.ParseWanted(marshal(t, fullWanted()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(fullWanted(), w); d != "" {
		t.Error(d)
	}
	s, err := swarm.ParseStatus(marshal(t, fullStatus()))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(marshal(t, fullStatus())), string(marshal(t, s))); d != "" {
		t.Error(d)
	}
}

func TestLineThatIsTooLongEndsReading(t *testing.T) {
	l := swarm.NewLines(io.MultiReader(bytes.NewReader([]byte("a\nb\n")), bytes.NewReader(make([]byte, swarm.MaxLine+1))))
	for _, want := range []string{"a", "b"} {
		if got, err := l.Next(); err != nil || string(got) != want {
			t.Fatalf("line %q, %v", got, err)
		}
	}
	if _, err := l.Next(); err == nil || err == io.EOF {
		t.Errorf("a line of more than MaxLine bytes: %v", err)
	}
}
