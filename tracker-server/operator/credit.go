package operator

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// Amount is money that somebody enters: in forms and on the command line
// decimal credits ("1.5"), in JSON an integer of micro-credits.
type Amount store.Credit

// ParseAmount reads decimal credits with at most six decimals, without sign.
// Error: invalid_request.
func ParseAmount(s string) (Amount, error) {
	bad := protocol.Errorf(protocol.CodeInvalidRequest, "%.40q is not an amount of credits, as in 12.5; six decimals are possible", s)
	whole, part, point := strings.Cut(strings.TrimSpace(s), ".")
	digits := func(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
	if !digits(whole) || point && (!digits(part) || len(part) > 6) {
		return 0, bad
	}
	micro, err := strconv.ParseInt(whole+(part + "000000")[:6], 10, 64)
	if err != nil || micro == math.MaxInt64 {
		return 0, bad
	}
	return Amount(micro), nil
}

// String writes credits without spare zeros.
func (a Amount) String() string {
	s := strings.TrimRight(store.Credit(a).String(), "0")
	return strings.TrimSuffix(s, ".")
}

// UnmarshalText reads what a form sends; an empty field is 0.
func (a *Amount) UnmarshalText(b []byte) (err error) {
	if len(b) == 0 {
		*a = 0
		return nil
	}
	*a, err = ParseAmount(string(b))
	return err
}

// UnmarshalJSON reads micro-credits.
func (a *Amount) UnmarshalJSON(b []byte) error {
	var v int64
	if err := json.Unmarshal(b, &v); err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "amounts in JSON are integers of micro-credits: %.40s", b)
	}
	*a = Amount(v)
	return nil
}

// MarshalJSON writes micro-credits.
func (a Amount) MarshalJSON() ([]byte, error) { return strconv.AppendInt(nil, int64(a), 10), nil }
