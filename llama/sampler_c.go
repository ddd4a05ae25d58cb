package llama

import "unsafe"

var (
	// struct llama_sampler * llama_sampler_chain_init(struct llama_sampler_chain_params params);
	cChainInit func(p chainParams) uintptr
	// void llama_sampler_chain_add(struct llama_sampler * chain, struct llama_sampler * smpl);
	cChainAdd func(chain, s uintptr)
	// struct llama_sampler * llama_sampler_chain_get(struct llama_sampler * chain, int32_t i);
	cChainGet func(chain uintptr, i int32) uintptr
	// const char * llama_sampler_name(const struct llama_sampler * smpl);
	cSamplerName func(s uintptr) string
	// void llama_sampler_accept(struct llama_sampler * smpl, llama_token token);
	cSamplerAccept func(s uintptr, id int32)
	// void llama_sampler_apply(struct llama_sampler * smpl, llama_token_data_array * cur_p);
	cSamplerApply func(s uintptr, a *tokenDataArray)
	// void llama_sampler_reset(struct llama_sampler * smpl);
	cSamplerReset func(s uintptr)
	// struct llama_sampler * llama_sampler_clone(const struct llama_sampler * smpl);
	cSamplerClone func(s uintptr) uintptr
	// void llama_sampler_free(struct llama_sampler * smpl);
	cSamplerFree func(s uintptr)
	// struct llama_sampler * llama_sampler_init_greedy(void);
	cInitGreedy func() uintptr
	// struct llama_sampler * llama_sampler_init_dist(uint32_t seed);
	cInitDist func(seed uint32) uintptr
	// struct llama_sampler * llama_sampler_init_top_k(int32_t k);
	cInitTopK func(k int32) uintptr
	// struct llama_sampler * llama_sampler_init_top_p(float p, size_t min_keep);
	cInitTopP func(p float32, minKeep uint64) uintptr
	// struct llama_sampler * llama_sampler_init_min_p(float p, size_t min_keep);
	cInitMinP func(p float32, minKeep uint64) uintptr
	// struct llama_sampler * llama_sampler_init_typical(float p, size_t min_keep);
	cInitTypical func(p float32, minKeep uint64) uintptr
	// struct llama_sampler * llama_sampler_init_temp(float t);
	cInitTemp func(t float32) uintptr
	// struct llama_sampler * llama_sampler_init_temp_ext(float t, float delta, float exponent);
	cInitTempExt func(t, delta, exponent float32) uintptr
	// struct llama_sampler * llama_sampler_init_top_n_sigma(float n);
	cInitTopNSigma func(n float32) uintptr
	// struct llama_sampler * llama_sampler_init_xtc(float p, float t, size_t min_keep, uint32_t seed);
	cInitXTC func(p, t float32, minKeep uint64, seed uint32) uintptr
	// struct llama_sampler * llama_sampler_init_mirostat(int32_t n_vocab, uint32_t seed, float tau, float eta, int32_t m);
	cInitMirostat func(nVocab int32, seed uint32, tau, eta float32, m int32) uintptr
	// struct llama_sampler * llama_sampler_init_mirostat_v2(uint32_t seed, float tau, float eta);
	cInitMirostatV2 func(seed uint32, tau, eta float32) uintptr
	// struct llama_sampler * llama_sampler_init_adaptive_p(float target, float decay, uint32_t seed);
	cInitAdaptiveP func(target, decay float32, seed uint32) uintptr
	// struct llama_sampler * llama_sampler_init_penalties(int32_t n_vocab, int32_t penalty_last_n,
	//     float penalty_repeat, float penalty_freq, float penalty_present);
	cInitPenalties func(nVocab, lastN int32, repeat, freq, present float32) uintptr
	// struct llama_sampler * llama_sampler_init_dry(const struct llama_vocab * vocab, float dry_multiplier, float dry_base,
	//     int32_t dry_allowed_length, int32_t dry_penalty_last_n, const char ** seq_breakers, size_t num_breakers);
	cInitDRY func(v uintptr, multiplier, base float32, allowed, lastN int32, breakers unsafe.Pointer, n uint64) uintptr
	// struct llama_sampler * llama_sampler_init_logit_bias(int32_t n_vocab, int32_t n_logit_bias, const llama_logit_bias * logit_bias);
	cInitLogitBias func(nVocab, n int32, bias *LogitBias) uintptr
	// struct llama_sampler * llama_sampler_init_grammar(const struct llama_vocab * vocab, const char * grammar_str, const char * grammar_root);
	cInitGrammar func(v uintptr, gbnf, root string) uintptr
	// struct llama_sampler * llama_sampler_init_grammar_lazy_patterns(const struct llama_vocab * vocab,
	//     const char * grammar_str, const char * grammar_root, const char ** trigger_patterns, size_t num_trigger_patterns,
	//     const llama_token * trigger_tokens, size_t num_trigger_tokens);
	cInitGrammarLazy func(v uintptr, gbnf, root string, patterns unsafe.Pointer, nPatterns uint64, tokens *int32, nTokens uint64) uintptr
)

var samplerBinds = []bind{
	{libLlama, "llama_sampler_chain_init", &cChainInit},
	{libLlama, "llama_sampler_chain_add", &cChainAdd},
	{libLlama, "llama_sampler_chain_get", &cChainGet},
	{libLlama, "llama_sampler_name", &cSamplerName},
	{libLlama, "llama_sampler_accept", &cSamplerAccept},
	{libLlama, "llama_sampler_apply", &cSamplerApply},
	{libLlama, "llama_sampler_reset", &cSamplerReset},
	{libLlama, "llama_sampler_clone", &cSamplerClone},
	{libLlama, "llama_sampler_free", &cSamplerFree},
	{libLlama, "llama_sampler_init_greedy", &cInitGreedy},
	{libLlama, "llama_sampler_init_dist", &cInitDist},
	{libLlama, "llama_sampler_init_top_k", &cInitTopK},
	{libLlama, "llama_sampler_init_top_p", &cInitTopP},
	{libLlama, "llama_sampler_init_min_p", &cInitMinP},
	{libLlama, "llama_sampler_init_typical", &cInitTypical},
	{libLlama, "llama_sampler_init_temp", &cInitTemp},
	{libLlama, "llama_sampler_init_temp_ext", &cInitTempExt},
	{libLlama, "llama_sampler_init_top_n_sigma", &cInitTopNSigma},
	{libLlama, "llama_sampler_init_xtc", &cInitXTC},
	{libLlama, "llama_sampler_init_mirostat", &cInitMirostat},
	{libLlama, "llama_sampler_init_mirostat_v2", &cInitMirostatV2},
	{libLlama, "llama_sampler_init_adaptive_p", &cInitAdaptiveP},
	{libLlama, "llama_sampler_init_penalties", &cInitPenalties},
	{libLlama, "llama_sampler_init_dry", &cInitDRY},
	{libLlama, "llama_sampler_init_logit_bias", &cInitLogitBias},
	{libLlama, "llama_sampler_init_grammar", &cInitGrammar},
	{libLlama, "llama_sampler_init_grammar_lazy_patterns", &cInitGrammarLazy},
}
