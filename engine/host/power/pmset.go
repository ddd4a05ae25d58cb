package power

import (
	"fmt"
	"strconv"
	"strings"
)

// parsePmset reads what `pmset -g batt` of macOS prints:
//
//	Now drawing from 'Battery Power'
//	 -InternalBattery-0 (id=1234)	83%; discharging; 4:10 remaining present: true
func parsePmset(text string) (State, error) {
	first, rest, _ := strings.Cut(text, "\n")
	_, from, ok := strings.Cut(first, "'")
	if !ok {
		return State{}, fmt.Errorf("pmset prints %.60q", first)
	}
	s := State{OnBattery: strings.HasPrefix(from, "Battery Power") || strings.HasPrefix(from, "UPS Power"), Percent: -1}
	for line := range strings.Lines(rest) {
		name, fields, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if !ok || !strings.HasPrefix(name, "-") {
			continue
		}
		s.Battery = true
		for _, f := range strings.Split(fields, ";") {
			f = strings.TrimSpace(f)
			if n, ok := strings.CutSuffix(f, "%"); ok {
				if v, err := strconv.Atoi(n); err == nil {
					s.Percent = percent(v)
				}
			}
			if f == "charging" {
				s.Charging = true
			}
		}
	}
	return s, nil
}
