package schema

import (
	"math/big"
	"strconv"
	"strings"
)

// fractionDigits is the longest fraction of a number with bounds.
const fractionDigits = 15

// number is the rule of numbers that s allows.
func (c *compiler) number(s *value, ptr string, whole bool) (string, error) {
	lo, hi, err := limits(s, ptr)
	if err != nil {
		return "", err
	}
	places := -1 // digits of the fraction, if multipleOf fixes them
	if m := s.get("multipleOf"); m != nil {
		if places, err = decimalPlaces(m, ptr); err != nil {
			return "", err
		}
		if places == 0 {
			whole = true
		}
	}
	switch {
	case lo == nil && hi == nil && whole:
		return c.b.once("integer", func() string { return `"-"? ( "0" | [1-9] [0-9]{0,15} )` }), nil
	case lo == nil && hi == nil && places > 0:
		return c.b.Add(`"-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." ` + c.b.repeat("[0-9]", 1, places) + ` )?`), nil
	case lo == nil && hi == nil:
		return c.b.number(), nil
	case whole:
		return c.between(lo.ceil(), hi.floor())
	case places > 0:
		return "", cannot(ptr, "multipleOf", "it cannot be kept together with bounds")
	}
	return c.decimals(lo, hi, ptr)
}

// limit is one bound of a range; nil is none.
type limit struct {
	at       *big.Rat
	excluded bool
	keyword  string
}

// limits reads the four keywords and takes the stricter of each pair.
func limits(s *value, ptr string) (lo, hi *limit, err error) {
	read := func(keyword string, excluded bool) (*limit, error) {
		v := s.get(keyword)
		if v == nil || v.kind == isBool { // draft 4's form, see below
			return nil, nil
		}
		r, ok := rat(v)
		if !ok {
			return nil, wrong(ptr, keyword, "it must be a number")
		}
		if len(r.FloatString(0)) > 18 {
			return nil, cannot(ptr, keyword, "bounds of more than 17 digits cannot be kept")
		}
		return &limit{r, excluded, keyword}, nil
	}
	stricter := func(plain, exclusive string, sign int) (*limit, error) {
		a, err := read(plain, false)
		if err != nil {
			return nil, err
		}
		b, err := read(exclusive, true)
		if err != nil {
			return nil, err
		}
		if v := s.get(exclusive); v != nil && v.kind == isBool && v.yes && a != nil {
			a.excluded = true
		}
		if a == nil || b != nil && b.at.Cmp(a.at)*sign >= 0 {
			return b, nil
		}
		return a, nil
	}
	if lo, err = stricter("minimum", "exclusiveMinimum", 1); err != nil {
		return nil, nil, err
	}
	hi, err = stricter("maximum", "exclusiveMaximum", -1)
	return lo, hi, err
}

// decimalPlaces accepts multipleOf 1, 0.1, 0.01 and so on.
func decimalPlaces(v *value, ptr string) (int, error) {
	r, ok := rat(v)
	if !ok || r.Sign() <= 0 {
		return 0, wrong(ptr, "multipleOf", "it must be a number above 0")
	}
	for n, step := 0, big.NewRat(1, 1); n <= fractionDigits; n++ {
		if r.Cmp(step) == 0 {
			return n, nil
		}
		step = new(big.Rat).Quo(step, big.NewRat(10, 1))
	}
	return 0, cannot(ptr, "multipleOf", "only 1, 0.1, 0.01 and so on can be kept")
}

// ceil is the least whole number that the bound allows from below, nil for none.
func (l *limit) ceil() *big.Int {
	if l == nil {
		return nil
	}
	up := new(big.Rat).Neg(l.at)
	out := (&limit{at: up, excluded: l.excluded}).floor()
	return out.Neg(out)
}

// floor is the largest whole number that the bound allows from above.
func (l *limit) floor() *big.Int {
	if l == nil {
		return nil
	}
	q := new(big.Int).Div(l.at.Num(), l.at.Denom()) // rounds down, as the denominator is positive
	if l.excluded && l.at.IsInt() {
		q.Sub(q, big.NewInt(1))
	}
	return q
}

var one = big.NewInt(1)

// between is the rule of whole numbers from lo to hi; nil is no bound.
func (c *compiler) between(lo, hi *big.Int) (string, error) {
	if lo != nil && hi != nil && lo.Cmp(hi) > 0 {
		return "", errNothing
	}
	var alts []string
	if lo == nil || lo.Sign() < 0 {
		var least, most *big.Int // of the amount behind the sign
		if least = one; hi != nil && hi.Sign() < 0 {
			least = new(big.Int).Neg(hi)
		}
		if lo != nil {
			most = new(big.Int).Neg(lo)
		}
		alts = append(alts, `"-" `+c.digits(least, most))
	}
	if hi == nil || hi.Sign() >= 0 {
		least := new(big.Int)
		if lo != nil && lo.Sign() > 0 {
			least = lo
		}
		alts = append(alts, c.digits(least, hi))
	}
	return c.b.Add(strings.Join(alts, " | ")), nil
}

// digits is the rule of whole numbers from lo >= 0 to hi without leading
// zeros.
func (c *compiler) digits(lo, hi *big.Int) string {
	a := lo.String()
	if hi == nil {
		more := "[1-9] " + c.b.repeat("[0-9]", len(a), max(len(a), 17))
		if lo.Sign() == 0 {
			return c.b.Add(`"0" | [1-9] [0-9]{0,17}`)
		}
		return c.b.Add(span(a, strings.Repeat("9", len(a))) + " | " + more)
	}
	b := hi.String()
	if len(a) == len(b) {
		return c.b.Add(span(a, b))
	}
	alts := []string{span(a, strings.Repeat("9", len(a)))}
	if n := len(b) - len(a); n > 1 {
		alts = append(alts, "[1-9] "+c.b.repeat("[0-9]", len(a), len(b)-2))
	}
	alts = append(alts, span("1"+strings.Repeat("0", len(b)-1), b))
	return c.b.Add(strings.Join(alts, " | "))
}

// span is an expression for the texts of digits from a to b, both of the same
// length, a <= b.
func span(a, b string) string {
	switch {
	case a == "":
		return `""`
	case strings.Trim(a, "0") == "" && strings.Trim(b, "9") == "":
		return anyDigits(len(a))
	case a[0] == b[0]:
		if len(a) == 1 {
			return digit(a[0], a[0])
		}
		return digit(a[0], a[0]) + " " + span(a[1:], b[1:])
	case len(a) == 1:
		return digit(a[0], b[0])
	}
	rest := len(a) - 1
	var alts []string
	low, high := a[0], b[0]
	if strings.Trim(a[1:], "0") != "" {
		alts = append(alts, digit(low, low)+" "+span(a[1:], strings.Repeat("9", rest)))
		low++
	}
	last := ""
	if strings.Trim(b[1:], "9") != "" {
		last = digit(high, high) + " " + span(strings.Repeat("0", rest), b[1:])
		high--
	}
	if low <= high {
		alts = append(alts, digit(low, high)+" "+anyDigits(rest))
	}
	if last != "" {
		alts = append(alts, last)
	}
	return "( " + strings.Join(alts, " | ") + " )"
}

func digit(a, b byte) string {
	if a == b {
		return `"` + string(a) + `"`
	}
	return "[" + string(a) + "-" + string(b) + "]"
}

func anyDigits(n int) string {
	if n == 1 {
		return "[0-9]"
	}
	return "[0-9]{" + strconv.Itoa(n) + "}"
}
