package gguf

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// window is how much a cursor reads at once.
const window = 256 << 10

// cursor reads a header once from front to back in large pieces. It never hands out or
// allocates more bytes than the file still holds.
type cursor struct {
	r    io.ReaderAt
	size int64 // of the file
	most int64 // of the header
	pos  int64
	buf  []byte // the bytes from pos on that are already read
	mem  []byte
}

func newCursor(r io.ReaderAt, size int64, most uint64) *cursor {
	c := &cursor{r: r, size: size, most: size}
	if most < uint64(size) {
		c.most = int64(most)
	}
	c.mem = make([]byte, min(size, window))
	return c
}

// left is the number of bytes that the header may still take.
func (c *cursor) left() uint64 { return uint64(c.most - c.pos) }

// check refuses n more bytes when the file or the limit does not have them.
func (c *cursor) check(what string, n uint64) error {
	if n <= c.left() {
		return nil
	}
	if n > uint64(c.size-c.pos) {
		return errf(CodeTruncated, "%s needs %d bytes at %d, the file has %d", what, n, c.pos, c.size)
	}
	return errf(CodeLimit, "%s at %d exceeds the limit of %d bytes for the header", what, c.pos, c.most)
}

// checkCount refuses a count of things that take at least each bytes of the file.
func (c *cursor) checkCount(what string, n, most, each uint64) error {
	if n > most {
		return errf(CodeLimit, "%d %s, at most %d are allowed", n, what, most)
	}
	if n > uint64(c.size-c.pos)/each {
		return errf(CodeTruncated, "%d %s do not fit in a file of %d bytes", n, what, c.size)
	}
	return nil
}

// take returns the next n bytes, n at most window. They are valid until the next call.
func (c *cursor) take(what string, n int) ([]byte, error) {
	if err := c.check(what, uint64(n)); err != nil {
		return nil, err
	}
	if len(c.buf) < n {
		want := min(int64(len(c.mem)), c.size-c.pos)
		if err := c.readAt(c.mem[:want], c.pos); err != nil {
			return nil, err
		}
		c.buf = c.mem[:want]
	}
	b := c.buf[:n]
	c.buf = c.buf[n:]
	c.pos += int64(n)
	return b, nil
}

// appendTo appends the next n bytes, any number that passed check, to b.
func (c *cursor) appendTo(b []byte, what string, n uint64) ([]byte, error) {
	if err := c.check(what, n); err != nil {
		return nil, err
	}
	if n <= uint64(len(c.mem)) {
		p, err := c.take(what, int(n))
		return append(b, p...), err
	}
	old := len(b)
	b = slices.Grow(b, int(n))[:old+int(n)]
	k := copy(b[old:], c.buf)
	if err := c.readAt(b[old+k:], c.pos+int64(k)); err != nil {
		return nil, err
	}
	c.buf = nil
	c.pos += int64(n)
	return b, nil
}

func (c *cursor) readAt(p []byte, off int64) error {
	n, err := c.r.ReadAt(p, off)
	switch {
	case n == len(p):
		return nil
	case err == nil || errors.Is(err, io.EOF):
		return errf(CodeTruncated, "the file ends at %d, before its stated size %d", off+int64(n), c.size)
	}
	return fmt.Errorf("gguf: read header: %w", err)
}

func (c *cursor) u32(what string) (uint32, error) {
	b, err := c.take(what, 4)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint32(b), nil
}

func (c *cursor) u64(what string) (uint64, error) {
	b, err := c.take(what, 8)
	if err != nil {
		return 0, err
	}
	return binary.LittleEndian.Uint64(b), nil
}

// text reads a length and so many bytes.
func (c *cursor) text(what string, most uint64) (string, error) {
	n, err := c.textLen(what, most)
	if err != nil {
		return "", err
	}
	if n <= uint64(len(c.mem)) {
		b, err := c.take(what, int(n))
		return string(b), err
	}
	b, err := c.appendTo(nil, what, n)
	return string(b), err
}

func (c *cursor) textLen(what string, most uint64) (uint64, error) {
	n, err := c.u64(what)
	if err != nil {
		return 0, err
	}
	if n > most {
		return 0, errf(CodeLimit, "%s at %d has %d bytes, at most %d are allowed", what, c.pos, n, most)
	}
	return n, c.check(what, n)
}
