// Package markdown reads the Markdown of answers while they are written. It
// splits text into small blocks, each shown by a widget of its own, so that a
// long answer costs as much per token as a short one. It is pure; the chat page
// imports it, and it knows nothing of widgets.
//
// It reads what models write: headings, lists, quotes, fenced and indented
// code, tables, rules, and in them bold, italic, code and links. Line breaks
// stay. HTML and pictures are not run or loaded: they stay text and links.
package markdown

import (
	"slices"
	"strings"
)

// Kind says what a block is.
type Kind uint8

// The kinds.
const (
	Paragraph Kind = iota
	Heading
	Quote
	Item // of a list
	Code
	Table
	Rule
)

// Block is a part of a text that is laid out by itself.
type Block struct {
	Kind Kind
	// Level is 1 to 6 of headings.
	Level int
	// Indent counts the lists around the block, of items without their own.
	Indent int
	// Marker stands before an item: "•", "3.", "☐" or "☑".
	Marker string
	// Info is what stands behind the fence of code: the language, and at times more.
	Info string
	// Lines are the text without the marks of the block. A table has its header
	// first; the line of dashes is left out.
	Lines []string
}

// Text joins the lines.
func (b *Block) Text() string { return strings.Join(b.Lines, "\n") }

// Language is the first word of Info.
func (b *Block) Language() string {
	if f := strings.Fields(b.Info); len(f) > 0 {
		return strings.Trim(f[0], "{}.")
	}
	return ""
}

// Splitter splits a text that comes in pieces. The zero value is ready. It is
// not safe for concurrent use.
type Splitter struct {
	parser
	part []byte // of the line that is not complete
}

// Write adds text.
func (s *Splitter) Write(text string) {
	for {
		line, rest, whole := strings.Cut(text, "\n")
		s.part = append(s.part, line...)
		if !whole {
			return
		}
		s.line(string(s.part))
		s.part, text = s.part[:0], rest
	}
}

// Blocks are the blocks of the text so far; the first frozen ones never change
// any more. The caller must not change them.
func (s *Splitter) Blocks() (blocks []Block, frozen int) {
	frozen = len(s.done)
	p := s.parser
	// What the copy appends must not come into the original.
	p.done, p.open.Lines, p.lists = slices.Clip(p.done), slices.Clip(p.open.Lines), slices.Clip(p.lists)
	if len(s.part) > 0 {
		p.line(string(s.part))
	}
	p.end()
	return p.done, frozen
}

// Split reads a whole text.
func Split(text string) []Block {
	var s Splitter
	s.Write(text)
	blocks, _ := s.Blocks()
	return blocks
}
