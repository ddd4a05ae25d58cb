// Package schema turns JSON schemas into GBNF, the grammars that libllama's
// sampler works with.
//
// Every text that a grammar of this package admits is a JSON value that the
// schema allows. The reverse does not hold: properties come in the order of the
// schema, objects with declared properties get others only where
// additionalProperties asks for them, numbers with bounds have no exponent,
// white space is bounded (small models otherwise write blanks for ever), and
// oneOf is read as anyOf. A keyword that cannot be kept in this way is an
// *Error that names it; nothing is left out silently. Annotations (title,
// description, default, examples, ...) and keywords that JSON Schema does not
// know mean nothing here, as the standard has it.
//
// Schemas come from clients and are hostile: size, nesting, the number of rules
// and the size of repetitions are bounded, and so is the time with them.
//
// The package knows neither HTTP nor models and imports the standard library
// alone. engine/gateway and gateway/toolcall import it.
package schema

import "fmt"

// Limits of one schema and one grammar.
const (
	// MaxSource is the largest schema, in bytes.
	MaxSource = 256 << 10
	// MaxGrammar is the largest grammar, in bytes.
	MaxGrammar = 192 << 10
	// MaxDepth bounds the nesting of a schema's JSON, and of subschemas.
	MaxDepth = 64
	// MaxRules bounds the rules of a grammar.
	MaxRules = 4096
	// MaxCount is the largest bound of a repetition (maxItems, maxLength, ...)
	// that is kept.
	MaxCount = 1999
	// MaxRepeats bounds what all repetitions of a grammar expand to, in
	// elements: libllama writes each repetition out.
	MaxRepeats = 20000
	// MaxProperties bounds the properties of one object.
	MaxProperties = 1000
	// MaxValues bounds the values of one enum and the elements of a tuple.
	MaxValues = 1000
	// MaxChoices bounds the alternatives of one anyOf, and the optional
	// properties in a row: libllama follows each of them at once, and goes
	// through the vocabulary for each.
	MaxChoices = 100
)

// Error says why a schema has no grammar.
type Error struct {
	// Pointer is the place in the schema, as a JSON pointer ("/properties/a").
	Pointer string
	// Keyword is the keyword at that place, "" for the place itself.
	Keyword string
	Reason  string
	// Unsupported tells a keyword that this package cannot keep from a schema
	// that is wrong.
	Unsupported bool
}

// Error gives place, keyword and reason in one sentence.
func (e *Error) Error() string {
	at := e.Pointer
	if at == "" {
		at = "the schema's root"
	}
	if e.Keyword == "" {
		return fmt.Sprintf("at %s: %s", at, e.Reason)
	}
	return fmt.Sprintf("%q at %s: %s", e.Keyword, at, e.Reason)
}

func wrong(ptr, keyword, format string, args ...any) *Error {
	return &Error{Pointer: ptr, Keyword: keyword, Reason: fmt.Sprintf(format, args...)}
}

func cannot(ptr, keyword, format string, args ...any) *Error {
	return &Error{Pointer: ptr, Keyword: keyword, Reason: fmt.Sprintf(format, args...), Unsupported: true}
}
