package gbnf

import "fmt"

// measure refuses left recursion and counts in how many ways rules begin.
func (g *reader) measure() error {
	empty := g.nullable()
	const busy = -1
	ways := make([]int, len(g.rules))
	var visit func(r int) error
	visit = func(r int) error {
		ways[r] = busy
		total := 0
		for _, seq := range g.rules[r].alts {
			n := 0
			for _, s := range seq {
				one := 1
				if s.rule >= 0 {
					switch ways[s.rule] {
					case busy:
						return fmt.Errorf("the rule of line %d begins with itself", g.rules[s.rule].line)
					case 0:
						if err := visit(s.rule); err != nil {
							return err
						}
					}
					if one = ways[s.rule]; empty[s.rule] {
						one *= s.copies
					}
				}
				n += one
				if !s.maybe && (s.rule < 0 || !empty[s.rule]) {
					break
				}
			}
			total += max(n, 1)
		}
		if total > maxWays {
			return fmt.Errorf("the beginning of the rule of line %d can be read in more than %d ways", g.rules[r].line, maxWays)
		}
		ways[r] = max(total, 1)
		return nil
	}
	for r := range g.rules {
		if ways[r] == 0 {
			if err := visit(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// nullable tells the rules that match the empty text.
func (g *reader) nullable() []bool {
	empty := make([]bool, len(g.rules))
	users := make([][]int, len(g.rules)) // the rules that mention a rule
	work := make([]int, 0, len(g.rules))
	for r := range g.rules {
		work = append(work, r)
		for _, seq := range g.rules[r].alts {
			for _, s := range seq {
				if s.rule >= 0 {
					users[s.rule] = append(users[s.rule], r)
				}
			}
		}
	}
	for len(work) > 0 {
		r := work[len(work)-1]
		work = work[:len(work)-1]
		if empty[r] {
			continue
		}
		for _, seq := range g.rules[r].alts {
			all := true
			for _, s := range seq {
				all = all && (s.maybe || s.rule >= 0 && empty[s.rule])
			}
			if all {
				empty[r] = true
				work = append(work, users[r]...)
				break
			}
		}
	}
	return empty
}
