package placement

import (
	"slices"

	"neuron/engine/protocol"
)

// Limits of a request.
const (
	maxHeld    = 256
	maxRanges  = 512
	maxRefused = 64
)

// CheckRequest checks all figures of a request; r is hostile.
func CheckRequest(r *protocol.PlaceRequest) error {
	for _, n := range []int64{r.Offer.Disk, r.Offer.Memory, r.Offer.DownRate, r.Offer.Speed} {
		if n < 0 || n > maxBytes {
			return protocol.Errorf(protocol.CodeInvalidRequest, "a figure of the offer, %d, is out of range", n)
		}
	}
	if len(r.Held) > maxHeld || len(r.Refused) > maxRefused || len(r.Model) > 256 {
		return protocol.Errorf(protocol.CodeInvalidRequest, "%d held models, %d refusals or a model name of %d bytes are too many", len(r.Held), len(r.Refused), len(r.Model))
	}
	if r.Range != nil && (r.Model == "" || !r.Range.Valid(maxLayers)) {
		return protocol.Errorf(protocol.CodeRangeInvalid, "layers %s of model %.80q", *r.Range, r.Model)
	}
	for _, h := range r.Held {
		if len(h.Ranges) > maxRanges || slices.ContainsFunc(h.Ranges, func(r protocol.Range) bool { return !r.Valid(maxLayers) }) {
			return protocol.Errorf(protocol.CodeInvalidRequest, "%d held ranges, or one that no model has", len(h.Ranges))
		}
	}
	for _, f := range r.Refused {
		if !f.Range.Valid(maxLayers) || f.Error == nil || len(f.Error.Detail["fits"]) > 64 {
			return protocol.Errorf(protocol.CodeInvalidRequest, "a refusal of layers %s without a usable reason", f.Range)
		}
	}
	return nil
}
