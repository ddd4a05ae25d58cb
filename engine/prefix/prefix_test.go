package prefix

import (
	"slices"
	"testing"

	"neuron/engine/protocol"
)

func text(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(i*i%911 + i)
	}
	return ids
}

func TestKeysFollowTheTokens(t *testing.T) {
	t.Parallel()
	secret := Secret([]byte("node"), "client", "public")
	ids := text(10*Block + 7)
	k := Of(secret, ids)
	if k.Blocks() != 10 || k.Tokens() != 10*Block {
		t.Fatalf("%d blocks of %d tokens", k.Blocks(), len(ids))
	}
	if got := Of(secret, ids[:5*Block+63]); got.Common(k) != 5 || got.Blocks() != 5 {
		t.Errorf("a beginning has %d of %d blocks in common", got.Common(k), got.Blocks())
	}
	for _, at := range []int{0, 3*Block + 1, 10*Block - 1} {
		other := slices.Clone(ids)
		other[at]++
		if got := Of(secret, other).Common(k); got != at/Block {
			t.Errorf("prompts that differ at %d have %d blocks in common, want %d", at, got, at/Block)
		}
	}
	// The same block behind another one is another beginning.
	moved := append(text(Block), ids[Block:2*Block]...)
	moved[0]++
	if Of(secret, moved).Common(k) != 0 {
		t.Error("a block is recognised behind another beginning")
	}
	for _, words := range [][]string{{"client", "private"}, {"other", "public"}, {"clientpublic"}, {"clientp", "ublic"}, nil} {
		if Of(Secret([]byte("node"), words...), ids).Common(k) != 0 {
			t.Errorf("words %q give the keys of others", words)
		}
	}
	if Of(Secret([]byte("edon"), "client", "public"), ids).Common(k) != 0 {
		t.Error("another node has the same keys")
	}
}

func TestParseRefusesWhatIsNoKeys(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, KeySize - 1, KeySize + 1, (MaxKeys + 1) * KeySize} {
		if _, err := Parse(make([]byte, n)); err == nil {
			t.Errorf("%d bytes are taken", n)
		}
	}
	for _, n := range []int{0, KeySize, MaxKeys * KeySize} {
		if k, err := Parse(make([]byte, n)); err != nil || k.Blocks() != n/KeySize {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// TestNodesAndGatewaysNameAlike: what a node reports of a kept prompt is found
// in the request of a prompt that shares at least half of it.
func TestNodesAndGatewaysNameAlike(t *testing.T) {
	t.Parallel()
	secret := Secret([]byte("node"))
	for _, kept := range []int{1, 2, 7, 31, 500, MaxKeys} {
		ids := text(kept * Block)
		names := Names([]Keys{Of(secret, ids)})
		for _, shared := range []int{kept, (kept + 1) / 2} {
			prompt := append(slices.Clone(ids[:shared*Block]), text(100)...)
			asked := Of(secret, prompt).Landmarks()
			if len(asked) > protocol.MaxPrefixes {
				t.Fatalf("%d prefixes in a request", len(asked))
			}
			if !slices.ContainsFunc(asked, func(p protocol.Prefix) bool {
				return slices.Contains(names, p.ID) && p.Tokens <= shared*Block && 2*p.Tokens >= shared*Block-Block
			}) {
				t.Errorf("%d blocks of %d kept ones are not recognised", shared, kept)
			}
		}
	}
	var many []Keys
	for i := range 40 {
		many = append(many, Of(Secret([]byte{byte(i)}), text(40*Block)))
	}
	if n := len(Names(many)); n != protocol.MaxPrefixes {
		t.Errorf("%d names are reported", n)
	}
}
