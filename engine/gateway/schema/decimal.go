package schema

import (
	"math/big"
	"strings"
)

// decimals is the rule of numbers, written without exponent, between two
// bounds.
func (c *compiler) decimals(lo, hi *limit, ptr string) (string, error) {
	if lo != nil && hi != nil {
		if n := lo.at.Cmp(hi.at); n > 0 || n == 0 && (lo.excluded || hi.excluded) {
			return "", errNothing
		}
	}
	for _, l := range []*limit{lo, hi} {
		if l != nil && !exact(l.at) {
			return "", cannot(ptr, l.keyword, "bounds with more than %d digits behind the point cannot be kept", fractionDigits)
		}
	}
	zero := &limit{at: new(big.Rat)}
	var alts []string
	if lo == nil || lo.at.Sign() < 0 {
		least := zero
		if hi != nil && hi.at.Sign() <= 0 {
			least = hi.negative()
		}
		alts = append(alts, prefixed(`"-" `, c.amounts(least, lo.negative()))...)
	}
	if hi == nil || hi.at.Sign() > 0 || hi.at.Sign() == 0 && !hi.excluded {
		least := zero
		if lo != nil && lo.at.Sign() >= 0 {
			least = lo
		}
		alts = append(alts, c.amounts(least, hi)...)
	}
	if len(alts) == 0 {
		return "", errNothing
	}
	return c.b.Add(strings.Join(alts, " | ")), nil
}

func prefixed(with string, list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = with + s
	}
	return out
}

func (l *limit) negative() *limit {
	if l == nil {
		return nil
	}
	return &limit{new(big.Rat).Neg(l.at), l.excluded, l.keyword}
}

// exact reports a number that has at most fractionDigits behind the point.
func exact(r *big.Rat) bool {
	back, ok := new(big.Rat).SetString(r.FloatString(fractionDigits))
	return ok && back.Cmp(r) == 0
}

// split is the whole part and the digits behind the point, without zeros at
// the end.
func split(r *big.Rat) (*big.Int, string) {
	whole, frac, _ := strings.Cut(r.FloatString(fractionDigits), ".")
	n, _ := new(big.Int).SetString(whole, 10)
	return n, strings.TrimRight(frac, "0")
}

const (
	anyTail     = "[0-9]{0,15}"
	anyFraction = `( "." [0-9]{1,15} )?`
	aboveZero   = `[0-9]{0,14} [1-9] [0-9]{0,15}`
)

// amounts are alternatives for numbers from lo >= 0 to hi; hi nil is no bound.
func (c *compiler) amounts(lo, hi *limit) []string {
	var alts []string
	add := func(whole, fraction string) {
		if fraction != none {
			alts = append(alts, strings.TrimSpace(whole+" "+fraction))
		}
	}
	a, f := split(lo.at)
	if hi == nil {
		add(Literal(a.String()), atLeast(f, lo.excluded))
		add(c.digits(new(big.Int).Add(a, one), nil), anyFraction)
		return alts
	}
	b, g := split(hi.at)
	if a.Cmp(b) == 0 {
		add(Literal(a.String()), within(f, g, lo.excluded, hi.excluded))
		return alts
	}
	add(Literal(a.String()), atLeast(f, lo.excluded))
	from, to := new(big.Int).Add(a, one), new(big.Int).Sub(b, one)
	if from.Cmp(to) <= 0 {
		add(c.digits(from, to), anyFraction)
	}
	add(Literal(b.String()), atMost(g, hi.excluded))
	return alts
}

// none is the fraction of which there is none.
const none = "-"

// atLeast is an expression for fractions from 0.f on.
func atLeast(f string, excluded bool) string {
	if f == "" {
		if !excluded {
			return anyFraction
		}
		return `"." ` + aboveZero
	}
	return `"." ` + digitsFrom(f, excluded)
}

// digitsFrom is the digits of a fraction that is f or more.
func digitsFrom(f string, excluded bool) string {
	if f == "" {
		if excluded {
			return aboveZero
		}
		return anyTail
	}
	same := digit(f[0], f[0]) + " " + digitsFrom(f[1:], excluded)
	if f[0] == '9' {
		return same
	}
	return "( " + digit(f[0]+1, '9') + " " + anyTail + " | " + same + " )"
}

// atMost is an expression for fractions up to 0.g, none among them.
func atMost(g string, excluded bool) string {
	if g == "" {
		if excluded {
			return none
		}
		return `( "." "0"{1,15} )?`
	}
	return `( "." ` + digitsTo(g, excluded, false) + " )?"
}

// digitsTo is the digits of a fraction that is g or less; g has no zeros at its
// end. began says that digits stand before, so that it may end here.
func digitsTo(g string, excluded, began bool) string {
	if g == "" {
		if excluded {
			return none
		}
		return `"0"{0,15}`
	}
	var alts []string
	if g[0] > '0' {
		alts = append(alts, digit('0', g[0]-1)+" "+anyTail)
	}
	if rest := digitsTo(g[1:], excluded, true); rest != none {
		alts = append(alts, digit(g[0], g[0])+" "+rest)
	}
	if len(alts) == 0 {
		return none
	}
	if began {
		return "( " + strings.Join(alts, " | ") + " )?"
	}
	return "( " + strings.Join(alts, " | ") + " )"
}

// within is an expression for fractions from 0.f to 0.g, f <= g.
func within(f, g string, noLow, noHigh bool) string {
	if f == g {
		if noLow || noHigh {
			return none
		}
		if f == "" {
			return `( "." "0"{1,15} )?`
		}
		return `"." ` + Literal(f) + ` "0"{0,15}`
	}
	if f == "" && !noLow {
		return atMost(g, noHigh)
	}
	return `"." ` + digitsWithin(f, g, noLow, noHigh)
}

// digitsWithin is the digits of a fraction between two different ones; a zero
// stands for digits that f lacks.
func digitsWithin(f, g string, noLow, noHigh bool) string {
	low := byte('0')
	rest := ""
	if f != "" {
		low, rest = f[0], f[1:]
	}
	if low == g[0] {
		return digit(low, low) + " " + digitsWithin(rest, g[1:], noLow, noHigh)
	}
	alts := []string{digit(low, low) + " " + digitsFrom(strings.TrimRight(rest, "0"), noLow)}
	if g[0]-low > 1 {
		alts = append(alts, digit(low+1, g[0]-1)+" "+anyTail)
	}
	if more := digitsTo(g[1:], noHigh, true); more != none {
		alts = append(alts, digit(g[0], g[0])+" "+more)
	}
	return "( " + strings.Join(alts, " | ") + " )"
}
