package family

// wide are the families whose seams carry more than one row of the model's
// width: several residual streams, or choices of positions.
var wide = []Family{
	{
		Arch: "deepseek4", Entry: "hc_init", Exit: "l_last", Streams: "hyper_connection.count",
		Sliding: &Sliding{All: true}, Ratios: "attention.compress_ratios", Needs: []Kind{KindCompressed, KindPooled},
		Lead: []string{"hash_layer_count"}, IDs: "hash_layer_count", Cache: CacheCompressed,
		Tail: []string{
			"output_hc_fn.weight", "output_hc_base.weight", "output_hc_scale.weight",
			"hc_head_fn.weight", "hc_head_base.weight", "hc_head_scale.weight",
		},
		Why: "rows have several residual streams, the first layers choose experts by token ids, and each stage needs a layer with an indexer over compressed positions",
	},
	{
		Arch: "glm-dsa", Entry: "embd", Lead: []string{leadDense}, Needs: []Kind{KindIndexer}, First: KindIndexer, Cache: CacheIndexed,
		Indexers: &Indexers{
			Key: "attention.indexer.types", LongContext: 1048576, Long: func(i int) bool { return i < 3 || i%4 == 2 },
			Shared: true, TopK: "attention.indexer.top_k",
		},
		Why: "layers without an indexer use the positions that the last one with an indexer chose, which cross the seam when the cut lies between",
	},
	{
		Arch: "minimax-m3", Entry: "embd", Lead: []string{leadDense}, Needs: []Kind{KindSparse}, Cache: CacheBlocks,
		Why: "each stage needs a layer behind the leading dense ones, for the cache of its indexer",
	},
}
