package swarm_test

import (
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest"
)

// TestMain makes the test binary the child, the real one or one that behaves
// as a test of the host needs it.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "fake" {
		os.Exit(fake(os.Args[2]))
	}
	os.Exit(swarmtest.Main(m))
}

// fake is a child that answers every Wanted with its version and one model,
// until it does what its name says.
func fake(kind string) int {
	lines := swarm.NewLines(os.Stdin)
	for {
		line, err := lines.Next()
		if err != nil {
			if kind == "deaf" {
				time.Sleep(time.Hour) // killed by the host
			}
			return 0
		}
		w, err := swarm.ParseWanted(line)
		if err != nil {
			return 2
		}
		s := swarm.Status{Version: w.Version, Time: time.Now(), Addr: "127.0.0.1:7", Models: []swarm.ModelStatus{
			{Model: w.Models[0].Model, State: swarm.StateDownloading, DownRate: 5, Peers: 3, Bytes: 10, Done: 5, Missing: 1, ETASeconds: 1},
		}}
		switch kind {
		case "frozen":
			time.Sleep(time.Hour)
		case "garbage":
			fmt.Println(`{"version":1}{`)
			continue
		}
		if err := json.NewEncoder(os.Stdout).Encode(s); err != nil {
			return 3
		}
		if kind == "panics" {
			panic("as told")
		}
	}
}
