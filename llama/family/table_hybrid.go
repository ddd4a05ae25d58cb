package family

// hybrid are the families with recurrent layers. The library ends the process
// over a stage that has layers of one kind only, where the family has two.
var hybrid = []Family{
	{Arch: "mamba", Recurrent: RecurAll, Why: "all layers are recurrent: a session keeps a state whose size does not grow"},
	{Arch: "mamba2", Recurrent: RecurAll, Why: "as mamba"},
	{Arch: "falcon-h1", Recurrent: RecurBoth, Why: "every layer has both kinds of memory"},
	{Arch: "qwen3next", Entry: "model.embed_tokens", Recurrent: RecurInterval, Needs: bothKinds, Why: needsBoth},
	{Arch: "qwen35", Entry: "model.input_embed", Recurrent: RecurInterval, Needs: bothKinds, Why: needsBoth + "; with embeddings instead of tokens each row has four positions"},
	{Arch: "qwen35moe", Entry: "model.input_embed", Recurrent: RecurInterval, Needs: bothKinds, Why: "as qwen35"},
	{Arch: "kimi-linear", Entry: "model.embed_tokens", Recurrent: RecurHeads, Needs: bothKinds, Lead: []string{leadDense}, Why: needsBoth},
	{Arch: "bailingmoe3", Entry: "model.input_embed", Recurrent: RecurHeads, Needs: bothKinds, Lead: []string{leadDense}, Why: needsBoth},
	{Arch: "lfm2", Entry: "model.embed_tokens", Recurrent: RecurHeads, Needs: bothKinds, Norm: "token_embd_norm.weight", Why: needsBoth + "; its last norm has the name of an embedding's"},
	{
		Arch: "lfm2moe", Entry: "model.embed_tokens", Recurrent: RecurHeads, Needs: bothKinds, Lead: []string{leadDense}, Norm: "token_embd_norm.weight",
		Why: "as lfm2; the leading layers are dense",
	},
	{Arch: "jamba", Recurrent: RecurHeads, Needs: bothKinds, Why: needsBoth},
	{Arch: "granitehybrid", Entry: "embd", Recurrent: RecurHeads, Needs: bothKinds, Why: needsBoth + "; whatever comes in is scaled"},
	{Arch: "nemotron_h", Exit: "nemotron_h_block_out", Recurrent: RecurHeadsFF, Needs: bothKinds, Why: needsBoth + "; the node called l_out lacks the residual"},
	{Arch: "nemotron_h_moe", Exit: "nemotron_h_block_out", Recurrent: RecurHeadsFF, Needs: bothKinds, Why: "as nemotron_h"},
}

var bothKinds = []Kind{KindAttention, KindRecurrent}

const needsBoth = "each stage needs a layer that attends and one that is recurrent"
