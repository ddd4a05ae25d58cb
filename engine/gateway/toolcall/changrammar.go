package toolcall

import (
	"neuron/engine/gateway/schema"
)

// What stands in front of a call, of a text and of a thought in an answer.
const (
	callHeader    = markChannel + "commentary to=" + functions
	callBody      = " " + markConstrain + "json" + markMessage
	finalHeader   = markChannel + "final" + markMessage
	thoughtHeader = markChannel + "analysis" + markMessage
	nextMessage   = markStart + author
)

// ChannelGrammar is the GBNF of answers in channels that are free but for their
// last message: value is the rule of its text. A thought may come first.
func ChannelGrammar(b *schema.Builder, value string) (string, error) {
	return b.Grammar(thinking(b, b.Add(schema.Literal(finalHeader)+" "+value)))
}

// thinking allows one thought in front of rest.
func thinking(b *schema.Builder, rest string) string {
	return b.Add(rest + " | " + schema.Literal(thoughtHeader) + " " + search(b, markEnd, schema.Literal(nextMessage)+" "+rest, false))
}

// channels is Grammar for answers in channels; bodies are the calls, from the
// name on. A call's end is the token that ends the turn, which no grammar names.
func (f Form) channels(b *schema.Builder, bodies string, d Demand) (string, error) {
	call := b.Add(schema.Literal(callHeader) + " " + bodies)
	if !d.Text {
		return b.Grammar(thinking(b, call))
	}
	text := d.Value
	if text == "" {
		// A message that begins behind the text has to be a call.
		text = search(b, markStart, schema.Literal(author)+" "+call, true)
	}
	final := b.Add(schema.Literal(finalHeader) + " " + text)
	return b.Grammar(thinking(b, b.Add(final+" | "+call)))
}
