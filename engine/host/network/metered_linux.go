package network

import (
	"context"

	"neuron/engine/host/bus"
	"neuron/engine/host/source"
)

// Metered asks NetworkManager, which knows what the user has set, and guesses
// for telephones.
func Metered(system *bus.Bus) source.Source[bool] {
	return source.Func[bool]{From: "NetworkManager", Ask: func(ctx context.Context) (bool, error) {
		const name = "org.freedesktop.NetworkManager"
		var m uint32
		if err := system.Property(ctx, name, "/org/freedesktop/NetworkManager", name, "Metered", &m); err != nil {
			return false, err
		}
		switch m { // NMMetered
		case 1, 3: // yes, guessed yes
			return true, nil
		case 2, 4: // no, guessed no
			return false, nil
		}
		return false, source.NotTold("NetworkManager does not know")
	}}
}
