package toolcall

import (
	"encoding/json"
	"strings"
)

// keyed reads {"NAME": {...}}, where a call's only key is its name.
type keyed struct {
	v    values
	told bool
	over bool // the arguments are complete
}

func (k *keyed) started() bool { return k.told }

// feed implements scanner.
func (k *keyed) feed(s string, emit func(name, args string)) (rest string, done, ok bool) {
	if !k.told {
		name, behind, wait := readKey(s)
		if wait {
			return s, false, true
		}
		if name == "" {
			return s, false, false
		}
		k.told = true
		emit(name, "")
		s = behind
	}
	if !k.over {
		i := 0
		for i < len(s) && !k.over {
			k.v.byte(s[i])
			k.over = k.v.depth == 0 && !k.v.str
			i++
		}
		if i > 0 {
			emit("", s[:i])
		}
		s = s[i:]
		if !k.over {
			return "", false, true
		}
	}
	i, behind, wait := expect(s, "}")
	switch {
	case wait:
		return s, false, true
	case i == 0:
		return behind, true, true
	}
	return s, true, true // more keys, or no brace: the call is read
}

// readKey reads { "NAME" : up to the brace that opens the arguments. name is ""
// when this is no call.
func readKey(s string) (name, rest string, wait bool) {
	i, rest, wait := expect(s, "{")
	if wait || i < 0 {
		return "", s, wait
	}
	if i, _, wait = expect(rest, `"`); wait || i < 0 {
		return "", s, wait
	}
	colon := strings.IndexByte(rest, ':') // names have none
	if colon > maxName || colon < 0 {
		return "", s, colon < 0 && len(rest) <= maxName
	}
	if json.Unmarshal([]byte(rest[:colon]), &name) != nil || name == "" {
		return "", s, false
	}
	if i, _, wait = expect(rest[colon+1:], "{"); wait || i < 0 {
		return "", s, wait
	}
	return name, strings.TrimLeft(rest[colon+1:], space), false
}
