package family

import "math"

// refused are the families that are not cut with an unmodified library.
var refused = []Family{
	{Arch: "kimi-k3", Whole: "every few layers the residual stream is put aside and later layers mix over all that was, so a seam would carry ever more rows that no node takes in"},
	{Arch: "minimax-01", Whole: "the decay of a layer's attention is computed from its index and the number of layers, which a stage does not have"},
	{Arch: "minicpm3", Whole: "the residual scale is computed from the number of layers in the graph itself, and no key replaces it"},
	{Arch: "baichuan", Whole: "the library tells the 7B model, which rotates, from the 13B model, which does not, by the number of layers"},
	{Arch: "gemma3n", Whole: "four streams and an embedding of its own for each layer are mixed with constants for the whole model's layers"},
	{Arch: "talkie", Whole: "the normalized embedding is added again in every layer, so a seam would carry two rows for one"},
	{Arch: "plamo2", Whole: "the graph gives its layers' outputs no names to be read by"},
	{Arch: "graniteswitch", Whole: "adapters are chosen by the tokens themselves before they are embedded"},
	{Arch: "qwen4exp", Whole: "embeddings of runs of tokens enter at layers that a list names by their index in the whole model"},
	{Arch: "rwkv6", Whole: "its recurrent state has no certified cut"},
	{Arch: "rwkv6qwen2", Whole: "its recurrent state has no certified cut"},
	{Arch: "rwkv7", Whole: "the first layer's values are mixed into every later layer, so a seam would carry two rows for one"},
	{Arch: "arwkv7", Whole: "as rwkv7: the first layer's values are mixed into every later layer"},
	{Arch: "chameleon", Whole: "it is a model for images and text of which no cut is certified"},
	{Arch: "cogvlm", Whole: "text and images take different weights, chosen by how rows come in"},
	{Arch: "deepseek2-ocr", Whole: "it is the text part of a model for scanned pages of which no cut is certified"},
	{Arch: "eagle3", Whole: "it is a draft model, which a route does not serve"},
	{Arch: "dflash", Whole: "it is a draft model, which a route does not serve"},
	{Arch: "gemma4-assistant", Whole: "it is a draft model that reads another model's cache"},
}

// fatal are the families over which the pinned library (v0.4.0) ends the process
// as soon as a stage runs as stages do, with flash attention on.
var fatal = map[string]string{
	"plm": "with flash attention, which stages run with, its graph hands over values of a wrong shape",
}

// ownEmbedding are the families whose files may lack an embedding: the library
// then takes the output matrix for one, and ends the process at the first token
// where it packed that matrix anew.
var ownEmbedding = []string{"codeshell"}

// residualScale is what the library takes for MiniCPM without the key, in its
// own precision.
func residualScale(layers int) float64 {
	return float64(float32(1.4) / float32(math.Sqrt(float64(float32(layers)))))
}
