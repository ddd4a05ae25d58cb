package llama

import (
	"math"
	"strings"
	"sync"
	"unsafe"
)

// Vocab is a llama_vocab*. It belongs to its model and goes with it.
type Vocab uintptr

// VocabType is llama_vocab_type.
type VocabType int32

const (
	VocabNone   VocabType = 0
	VocabSPM    VocabType = 1
	VocabBPE    VocabType = 2
	VocabWPM    VocabType = 3
	VocabUGM    VocabType = 4
	VocabRWKV   VocabType = 5
	VocabPLaMo2 VocabType = 6
)

// String gives the lower-case name.
func (t VocabType) String() string {
	names := [...]string{"none", "spm", "bpe", "wpm", "ugm", "rwkv", "plamo2"}
	if t < 0 || int(t) >= len(names) {
		return "unknown"
	}
	return names[t]
}

// TokenAttr is the bit set llama_token_attr.
type TokenAttr int32

const (
	AttrUnknown     TokenAttr = 1 << 0
	AttrUnused      TokenAttr = 1 << 1
	AttrNormal      TokenAttr = 1 << 2
	AttrControl     TokenAttr = 1 << 3
	AttrUserDefined TokenAttr = 1 << 4
	AttrByte        TokenAttr = 1 << 5
	AttrNormalized  TokenAttr = 1 << 6
	AttrLStrip      TokenAttr = 1 << 7
	AttrRStrip      TokenAttr = 1 << 8
	AttrSingleWord  TokenAttr = 1 << 9
)

// TokenNull stands for "no such token", as from EOT of a model without one.
const TokenNull int32 = -1

// maxText bounds one call of Tokenize; libllama counts in int32 and needs a
// multiple of the text as memory.
const maxText = 16 << 20

type vocabState struct {
	typ VocabType
	n   int32
}

var vocabs sync.Map // Vocab -> *vocabState

var (
	// enum llama_vocab_type llama_vocab_type(const struct llama_vocab * vocab);
	cVocabType func(v uintptr) int32
	// int32_t llama_vocab_n_tokens(const struct llama_vocab * vocab);
	cVocabN func(v uintptr) int32
	// const char * llama_vocab_get_text(const struct llama_vocab * vocab, llama_token token);
	cVocabText func(v uintptr, id int32) string
	// enum llama_token_attr llama_vocab_get_attr(const struct llama_vocab * vocab, llama_token token);
	cVocabAttr func(v uintptr, id int32) int32
	// bool llama_vocab_is_eog(const struct llama_vocab * vocab, llama_token token);
	cVocabIsEOG func(v uintptr, id int32) bool
	// bool llama_vocab_is_control(const struct llama_vocab * vocab, llama_token token);
	cVocabIsControl func(v uintptr, id int32) bool
	// llama_token llama_vocab_bos(const struct llama_vocab * vocab);
	cVocabBOS func(v uintptr) int32
	// llama_token llama_vocab_eos(const struct llama_vocab * vocab);
	cVocabEOS func(v uintptr) int32
	// llama_token llama_vocab_eot(const struct llama_vocab * vocab);
	cVocabEOT func(v uintptr) int32
	// bool llama_vocab_get_add_bos(const struct llama_vocab * vocab);
	cVocabAddBOS func(v uintptr) bool
	// bool llama_vocab_get_add_eos(const struct llama_vocab * vocab);
	cVocabAddEOS func(v uintptr) bool
	// int32_t llama_tokenize(const struct llama_vocab * vocab, const char * text, int32_t text_len,
	//     llama_token * tokens, int32_t n_tokens_max, bool add_special, bool parse_special);
	cTokenize func(v uintptr, text *byte, n int32, out *int32, nMax int32, addSpecial, parseSpecial bool) int32
	// int32_t llama_token_to_piece(const struct llama_vocab * vocab, llama_token token,
	//     char * buf, int32_t length, int32_t lstrip, bool special);
	cPiece func(v uintptr, id int32, buf *byte, n, lstrip int32, special bool) int32
	// int32_t llama_detokenize(const struct llama_vocab * vocab, const llama_token * tokens, int32_t n_tokens,
	//     char * text, int32_t text_len_max, bool remove_special, bool unparse_special);
	cDetokenize func(v uintptr, ids *int32, n int32, text *byte, nMax int32, removeSpecial, unparseSpecial bool) int32
)

var vocabBinds = []bind{
	{libLlama, "llama_vocab_type", &cVocabType},
	{libLlama, "llama_vocab_n_tokens", &cVocabN},
	{libLlama, "llama_vocab_get_text", &cVocabText},
	{libLlama, "llama_vocab_get_attr", &cVocabAttr},
	{libLlama, "llama_vocab_is_eog", &cVocabIsEOG},
	{libLlama, "llama_vocab_is_control", &cVocabIsControl},
	{libLlama, "llama_vocab_bos", &cVocabBOS},
	{libLlama, "llama_vocab_eos", &cVocabEOS},
	{libLlama, "llama_vocab_eot", &cVocabEOT},
	{libLlama, "llama_vocab_get_add_bos", &cVocabAddBOS},
	{libLlama, "llama_vocab_get_add_eos", &cVocabAddEOS},
	{libLlama, "llama_tokenize", &cTokenize},
	{libLlama, "llama_token_to_piece", &cPiece},
	{libLlama, "llama_detokenize", &cDetokenize},
}

func (v Vocab) state() *vocabState {
	if s, ok := vocabs.Load(v); ok {
		return s.(*vocabState)
	}
	return nil
}

// Type is the kind of tokenizer; VocabNone also for a freed model.
func (v Vocab) Type() VocabType {
	if st := v.state(); st != nil {
		return st.typ
	}
	return VocabNone
}

// N is the number of tokens. A stage without tokenizer has a few dummy tokens.
func (v Vocab) N() int {
	if st := v.state(); st != nil {
		return int(st.n)
	}
	return 0
}

// check guards accessors that assert a vocabulary and throw for unknown ids.
func (v Vocab) check(op string, ids ...int32) error {
	st := v.state()
	if st == nil {
		return fail(CodeInvalidHandle, op, "")
	}
	if st.typ == VocabNone {
		return fail(CodeVocabNone, op, "")
	}
	for _, id := range ids {
		if id < 0 || id >= st.n {
			return fail(CodeInvalidArg, op, "token id out of range")
		}
	}
	return nil
}

// Tokenize turns text into token ids. addSpecial adds what the model wants at the
// ends (BOS, EOS); parseSpecial reads the text of control tokens as such. Bytes
// that are not UTF-8 become U+FFFD. At most 16 MiB of text.
func (v Vocab) Tokenize(text string, addSpecial, parseSpecial bool) ([]int32, error) {
	const op = "tokenize"
	if err := v.check(op); err != nil {
		return nil, err
	}
	if len(text) > maxText {
		return nil, fail(CodeInvalidArg, op, "text is too long")
	}
	text = strings.ToValidUTF8(text, "\uFFFD")
	in := append([]byte(text), 0)
	out := make([]int32, len(text)/2+16)
	n := cTokenize(uintptr(v), &in[0], int32(len(text)), &out[0], int32(len(out)), addSpecial, parseSpecial)
	if n < 0 && n != math.MinInt32 {
		out = make([]int32, -n)
		n = cTokenize(uintptr(v), &in[0], int32(len(text)), &out[0], int32(len(out)), addSpecial, parseSpecial)
	}
	if n < 0 {
		return nil, fail(CodeTokenize, op, "")
	}
	return out[:n:n], nil
}

// Piece gives the bytes of one token, which need not be whole UTF-8 characters.
// Control tokens give no bytes unless special is true.
func (v Vocab) Piece(id int32, special bool) ([]byte, error) {
	const op = "piece"
	if err := v.check(op, id); err != nil {
		return nil, err
	}
	buf := make([]byte, 64)
	n := cPiece(uintptr(v), id, &buf[0], int32(len(buf)), 0, special)
	if n < 0 {
		buf = make([]byte, -n)
		n = cPiece(uintptr(v), id, &buf[0], int32(len(buf)), 0, special)
	}
	if n < 0 {
		return nil, fail(CodeTokenize, op, "")
	}
	return buf[:n], nil
}

// Detokenize gives the text of several tokens. removeSpecial drops BOS and EOS at
// the ends when the model adds them; special writes control tokens as text.
func (v Vocab) Detokenize(ids []int32, removeSpecial, special bool) (string, error) {
	const op = "detokenize"
	if err := v.check(op, ids...); err != nil {
		return "", err
	}
	if len(ids) == 0 {
		return "", nil
	}
	if len(ids) > maxText {
		return "", fail(CodeInvalidArg, op, "too many tokens")
	}
	buf := make([]byte, 8*len(ids)+16)
	n := cDetokenize(uintptr(v), unsafe.SliceData(ids), int32(len(ids)), &buf[0], int32(len(buf)), removeSpecial, special)
	if n < 0 && n != math.MinInt32 {
		buf = make([]byte, -n)
		n = cDetokenize(uintptr(v), unsafe.SliceData(ids), int32(len(ids)), &buf[0], int32(len(buf)), removeSpecial, special)
	}
	if n < 0 {
		return "", fail(CodeTokenize, op, "")
	}
	return string(buf[:n]), nil
}

func (v Vocab) token(f func(uintptr) int32) int32 {
	if v.check("") != nil {
		return TokenNull
	}
	return f(uintptr(v))
}

// BOS is the token that begins a sequence, TokenNull when there is none.
func (v Vocab) BOS() int32 { return v.token(cVocabBOS) }

// EOS is the token that ends a sequence, TokenNull when there is none.
func (v Vocab) EOS() int32 { return v.token(cVocabEOS) }

// EOT is the token that ends a turn, TokenNull when there is none.
func (v Vocab) EOT() int32 { return v.token(cVocabEOT) }

// IsEOG says that generation ends with this token.
func (v Vocab) IsEOG(id int32) bool { return v.check("", id) == nil && cVocabIsEOG(uintptr(v), id) }

// IsControl says that the token is not text.
func (v Vocab) IsControl(id int32) bool {
	return v.check("", id) == nil && cVocabIsControl(uintptr(v), id)
}

// AddBOS says that Tokenize with addSpecial begins with BOS.
func (v Vocab) AddBOS() bool { return v.check("") == nil && cVocabAddBOS(uintptr(v)) }

// AddEOS says that Tokenize with addSpecial ends with EOS.
func (v Vocab) AddEOS() bool { return v.check("") == nil && cVocabAddEOS(uintptr(v)) }

// Text is the token as the vocabulary file spells it, "" for an unknown id.
func (v Vocab) Text(id int32) string {
	if v.check("", id) != nil {
		return ""
	}
	return cVocabText(uintptr(v), id)
}

// Attr gives the attributes of a token, 0 for an unknown id.
func (v Vocab) Attr(id int32) TokenAttr {
	if v.check("", id) != nil {
		return 0
	}
	return TokenAttr(cVocabAttr(uintptr(v), id))
}
