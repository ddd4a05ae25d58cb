package torrentfile

import (
	"bytes"
	"strconv"
)

// cursor reads canonical bencoding (BEP 3): keys sorted and unique, numbers in
// their one form. It allocates nothing for what it skips.
type cursor struct {
	b     []byte
	at    int
	depth int
	err   error
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = bad(format, args...)
	}
}

// peek is the next byte, 0 at the end and after an error.
func (c *cursor) peek() byte {
	if c.err != nil || c.at >= len(c.b) {
		return 0
	}
	return c.b[c.at]
}

// digits reads a whole number up to the byte end, which it takes too.
func (c *cursor) digits(end byte, what string) int64 {
	if c.err != nil {
		return 0
	}
	rest := c.b[c.at:]
	k := bytes.IndexByte(rest[:min(len(rest), 21)], end)
	if k < 0 {
		c.fail("%s at byte %d is not bencoded", what, c.at)
		return 0
	}
	n, err := strconv.ParseInt(string(rest[:k]), 10, 64)
	// Formatting back refuses "+1", "-0" and leading zeros.
	if err != nil || strconv.FormatInt(n, 10) != string(rest[:k]) {
		c.fail("%s at byte %d is %q", what, c.at, rest[:k])
		return 0
	}
	c.at += k + 1
	return n
}

// number reads "i12e".
func (c *cursor) number() int64 {
	if c.peek() != 'i' {
		c.fail("expected a number at byte %d", c.at)
		return 0
	}
	c.at++
	return c.digits('e', "number")
}

// text reads "4:spam" of at most most bytes, as a view.
func (c *cursor) text(most int) []byte {
	if b := c.peek(); b < '0' || b > '9' {
		c.fail("expected text at byte %d", c.at)
		return nil
	}
	n := c.digits(':', "length")
	if c.err != nil || n > int64(most) || n > int64(len(c.b)-c.at) {
		c.fail("text of %d bytes at byte %d", n, c.at)
		return nil
	}
	s := c.b[c.at : c.at+int(n) : c.at+int(n)]
	c.at += int(n)
	return s
}

func (c *cursor) open(kind byte, what string) bool {
	if c.peek() != kind {
		c.fail("expected %s at byte %d", what, c.at)
		return false
	}
	if c.depth++; c.depth > maxDepth {
		c.fail("is nested more than %d deep", maxDepth)
		return false
	}
	c.at++
	return true
}

// more reports whether another entry comes; else it takes the end.
func (c *cursor) more() bool {
	if c.err != nil {
		return false
	}
	if c.peek() != 'e' {
		return true
	}
	c.at++
	c.depth--
	return false
}

// list calls entry before each value, which entry must take.
func (c *cursor) list(entry func()) {
	if c.open('l', "a list") {
		for c.more() {
			entry()
		}
	}
}

// dict calls entry before each value, which entry must take.
func (c *cursor) dict(entry func(key string)) {
	if !c.open('d', "a dictionary") {
		return
	}
	var last []byte
	for first := true; c.more(); first = false {
		key := c.text(maxURL)
		if c.err == nil && !first && bytes.Compare(last, key) >= 0 {
			c.fail("key %.40q after %.40q", key, last)
		}
		if c.err != nil {
			return
		}
		last = key
		entry(string(key))
	}
}

// skip takes one value of any kind.
func (c *cursor) skip() {
	switch c.peek() {
	case 'i':
		c.number()
	case 'l':
		c.list(c.skip)
	case 'd':
		c.dict(func(string) { c.skip() })
	default:
		c.text(MaxBytes)
	}
}
