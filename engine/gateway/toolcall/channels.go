package toolcall

import "strings"

// Marks of answers in channels (gpt-oss, "harmony"). An answer is messages: a
// header, markMessage, a body, and one of the marks that end it. The header names
// a channel and, for a call, to whom the body goes. The prompt ends with
// markStart and "assistant", so that an answer begins inside a header.
const (
	markStart     = "<|start|>"
	markChannel   = "<|channel|>"
	markConstrain = "<|constrain|>"
	markMessage   = "<|message|>"
	markEnd       = "<|end|>"
	markCall      = "<|call|>"
	markReturn    = "<|return|>"
)

var channelMarks = []string{markStart, markChannel, markConstrain, markMessage, markEnd, markCall, markReturn}

const (
	author = "assistant"
	// functions is in front of the name of a request's tool.
	functions = "functions."
	// maxHeader bounds a header in bytes: what is longer is none, and is text.
	maxHeader = 512
)

// Channels splits an answer in channels into text, thoughts and calls while it
// comes. The channel final is text, and so is what of commentary goes to nobody;
// analysis is a thought, and so is what goes to a tool that is no function of the
// request, or is spoken by another than the assistant. What is in no channel is
// text: nothing but the marks and the headers is ever lost. Not safe for
// concurrent use.
type Channels struct {
	offered bool // the request has tools: calls are calls
	calls   int
	part    part
	header  strings.Builder // text and marks of the header under way
	size    int             // bytes of text in it
	begun   bool            // some of the header is not white space
	body    strings.Builder // of a call, until its first brace
	v       values
	open    bool // the call's arguments have begun
	over    bool
	turned  bool          // a header of the model's own was seen
	said    map[part]bool // text or thoughts were told before
	fresh   bool          // the message has told nothing yet
	space   string        // white space at a text's end
	buf     string        // of Feed: not decided yet
	out     []Event
}

// part is what a message is.
type part int

const (
	inHeader part = iota
	inText
	inThought
	inCall
	behindCall // behind the arguments' last brace
	between    // behind a message's end
)

// NewChannels reads an answer to a request that offers tools, or none.
func NewChannels(offered bool) *Channels {
	return &Channels{offered: offered, said: map[part]bool{}}
}

// Calls is the number of calls begun.
func (c *Channels) Calls() int { return c.calls }

// Content says that the next text is content: stop strings count there.
func (c *Channels) Content() bool { return c.part == inText }

// Over says that the model has ended its turn.
func (c *Channels) Over() bool { return c.over }

// Feed takes a piece in which marks are spelled: for vocabularies that have no
// tokens for them.
func (c *Channels) Feed(s string) []Event {
	c.out = nil
	c.buf += s
	for c.buf != "" {
		at, mark, hold := len(c.buf), "", 0
		for _, m := range channelMarks {
			if i := strings.Index(c.buf, m); i >= 0 && i < at {
				at, mark = i, m
			}
			hold = max(hold, overlap(c.buf, m))
		}
		if mark == "" {
			c.text(c.buf[:len(c.buf)-hold])
			c.buf = c.buf[len(c.buf)-hold:]
			break
		}
		c.text(c.buf[:at])
		c.mark(mark)
		c.buf = c.buf[at+len(mark):]
	}
	return c.out
}

// Text takes a piece of text in which a mark that is spelled is text.
func (c *Channels) Text(s string) []Event {
	c.out = nil
	c.text(s)
	return c.out
}

// Mark takes a token that is one of the form's Markers.
func (c *Channels) Mark(mark string) []Event {
	c.out = nil
	c.mark(mark)
	return c.out
}

// Finish takes the answer's end: what was held back comes out.
func (c *Channels) Finish() []Event {
	c.out = nil
	c.text(c.buf)
	c.buf = ""
	c.close()
	return c.out
}

func (c *Channels) text(s string) {
	if s == "" {
		return
	}
	switch c.part {
	case inHeader:
		c.header.WriteString(s)
		c.begun = c.begun || strings.TrimSpace(s) != ""
		if c.size += len(s); c.size > maxHeader {
			c.noHeader()
		}
	case inCall:
		c.arguments(s)
	case behindCall, between:
		if strings.TrimSpace(s) != "" {
			c.enter(inText)
			c.say(s)
		}
	default:
		c.say(s)
	}
}

func (c *Channels) mark(m string) {
	switch m {
	case markStart:
		c.close()
		c.enter(inHeader)
		c.turned = true
	case markChannel:
		// A model may forget to end a message.
		if c.part != inHeader {
			c.close()
			c.enter(inHeader)
			c.header.WriteString(author)
		}
		c.header.WriteString(markChannel)
	case markConstrain:
		if c.part == inHeader {
			c.header.WriteString(" ")
		}
	case markMessage:
		if c.part == inHeader {
			c.message()
		}
	case markEnd:
		c.close()
		c.part = between
	case markCall, markReturn:
		c.close()
		c.part, c.over = between, true
	}
}

// enter begins a part.
func (c *Channels) enter(p part) {
	c.part, c.fresh, c.size, c.begun, c.open, c.v, c.space = p, true, 0, false, false, values{}, ""
	c.header.Reset()
	c.body.Reset()
}

// message reads the header, at its end.
func (c *Channels) message() {
	role, rest, channeled := strings.Cut(c.header.String(), markChannel)
	who, to := recipient(role)
	channel, more := recipient(rest)
	if more != "" {
		to = more
	}
	channel, _ = cutWord(channel)
	if !c.turned && who != "" && who != author {
		// The prompt has said who speaks: this is no role.
		c.enter(inText)
		c.say(who)
		who = ""
	}
	name, function := strings.CutPrefix(to, functions)
	switch {
	case who != "" && who != author:
		c.enter(inThought)
	case function && name != "" && c.offered:
		c.enter(inCall)
		c.header.WriteString(name)
	case function || !channeled:
		c.enter(inText)
	case to != "" || channel == "analysis":
		c.enter(inThought)
	default:
		c.enter(inText)
	}
}

// recipient splits "word to=name more" into the word with more, and the name.
func recipient(s string) (rest, to string) {
	before, after, found := strings.Cut(s, "to=")
	if !found {
		return strings.TrimSpace(s), ""
	}
	end := strings.IndexAny(after, space+"<")
	if end < 0 {
		end = len(after)
	}
	return strings.TrimSpace(before + after[end:]), after[:end]
}

func cutWord(s string) (word, rest string) {
	if i := strings.IndexAny(s, space); i >= 0 {
		return s[:i], strings.TrimSpace(s[i:])
	}
	return s, ""
}

// noHeader makes text of what was taken for a header and has no body: all but
// the words of a header.
func (c *Channels) noHeader() {
	role, rest, channeled := strings.Cut(c.header.String(), markChannel)
	who, _ := recipient(role)
	if !channeled {
		who = role // no header at all: every character of it is text
	}
	if channeled && who == author {
		who = ""
	}
	rest, _ = recipient(rest)
	channel, more := cutWord(rest)
	if more == "json" || more == "code" { // the kind of the body
		more = ""
	}
	c.enter(inText)
	c.say(who)
	if channel == "analysis" {
		c.enter(inThought)
	}
	if who != "" && more != "" && c.part == inText {
		more = " " + more
	}
	c.say(more)
}

// arguments takes a piece of a call's body.
func (c *Channels) arguments(s string) {
	if !c.open {
		c.body.WriteString(s)
		body := strings.TrimLeft(c.body.String(), space)
		if body == "" {
			return
		}
		if body[0] != '{' { // no arguments: what a client could not read
			c.enter(inText)
			c.say(body)
			return
		}
		c.begin()
		s = body
	}
	for i := range len(s) {
		c.v.byte(s[i])
		if c.v.depth == 0 && !c.v.str {
			c.out = append(c.out, Event{Call: c.calls - 1, Args: s[:i+1]}, Event{Call: c.calls - 1, End: true})
			c.enter(behindCall)
			c.text(s[i+1:])
			return
		}
	}
	c.out = append(c.out, Event{Call: c.calls - 1, Args: s})
}

// begin tells the call's name.
func (c *Channels) begin() {
	c.calls, c.open = c.calls+1, true
	c.out = append(c.out, Event{Call: c.calls - 1, Name: c.header.String()})
}

// say tells text or a thought. White space at its end waits for more; messages
// of one kind stand apart.
func (c *Channels) say(s string) {
	if c.fresh {
		s = strings.TrimLeft(s, space)
	}
	body := strings.TrimRight(s, space)
	if body == "" {
		c.space += s
		return
	}
	told := c.space + body
	if c.fresh && c.said[c.part] {
		told = "\n\n" + told
	}
	c.fresh, c.said[c.part], c.space = false, true, s[len(body):]
	e := Event{Text: told}
	if c.part == inThought {
		e = Event{Thought: told}
	}
	c.out = append(c.out, e)
}

// close ends the message under way.
func (c *Channels) close() {
	switch c.part {
	case inHeader:
		if c.begun && strings.TrimSpace(c.header.String()) != author {
			c.noHeader()
		}
	case inCall:
		if !c.open { // a call of a tool without parameters
			c.begin()
			c.out = append(c.out, Event{Call: c.calls - 1, Args: "{}"})
		}
		c.out = append(c.out, Event{Call: c.calls - 1, End: true})
	}
	c.enter(between)
}

// Channels says that answers in this form come in channels, also those without
// calls: they are read by a Channels, and not by a Parser.
func (f Form) Channels() bool { return f.Name == harmony.Name }
