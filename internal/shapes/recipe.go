package shapes

import "neuron/llama/gguf"

// Recipe says what the classes are stored as, in the manner of published files:
// the routed experts, which are nearly all of a large model, in the type that
// names the recipe, and what every token needs in a better one.
type Recipe struct {
	Name         string
	Expert, Down gguf.Type
	Matrix       gguf.Type
	Small        gguf.Type
	Embed, Head  gguf.Type
}

func (r Recipe) typ(t Tensor) gguf.Type {
	switch t.Class {
	case Small:
		return r.Small
	case Matrix:
		return r.Matrix
	case Expert:
		return r.Expert
	case ExpertIn:
		return r.Down
	case Embed:
		return r.Embed
	case Head:
		return r.Head
	case Index:
		return gguf.TypeI32
	default:
		return gguf.TypeF32
	}
}

// mixed keeps all but the routed experts in Q8_0, as files of large MoE models do.
func mixed(name string, expert, down gguf.Type) Recipe {
	return Recipe{name, expert, down, gguf.TypeQ8_0, gguf.TypeF16, gguf.TypeQ8_0, gguf.TypeQ8_0}
}

// even stores all matrices in one type, and the output matrix in at least Q6_K.
func even(name string, typ gguf.Type) Recipe {
	head := typ
	if typ == gguf.TypeQ4_K {
		head = gguf.TypeQ6_K
	}
	return Recipe{name, typ, typ, typ, gguf.TypeF16, typ, head}
}

// Recipes are the types that a shape is reported in, the smallest first.
func (s *Shape) Recipes() []Recipe {
	if s.Experts == 0 {
		return []Recipe{even("Q4_K", gguf.TypeQ4_K), even("Q6_K", gguf.TypeQ6_K), even("Q8_0", gguf.TypeQ8_0)}
	}
	small := []Recipe{
		mixed("IQ1_S", gguf.TypeIQ1_S, gguf.TypeIQ1_S), mixed("IQ2_XXS", gguf.TypeIQ2_XXS, gguf.TypeQ2_K), mixed("Q2_K", gguf.TypeQ2_K, gguf.TypeQ2_K),
		mixed("Q3_K", gguf.TypeQ3_K, gguf.TypeQ3_K), mixed("Q4_K", gguf.TypeQ4_K, gguf.TypeQ4_K), mixed("Q8_0", gguf.TypeQ8_0, gguf.TypeQ8_0),
	}
	switch s.Arch {
	case "deepseek4":
		return append(small[:4:4], mixed("MXFP4", gguf.TypeMXFP4, gguf.TypeMXFP4), small[4], small[5])
	case "qwen35moe":
		return small[2:]
	}
	return small
}

// Recipe finds one of Recipes by name.
func (s *Shape) Recipe(name string) (Recipe, bool) {
	for _, r := range s.Recipes() {
		if r.Name == name {
			return r, true
		}
	}
	return Recipe{}, false
}

// Placed reports whether ranges are computed for a recipe: two per shape, one that
// is small and one that loses little.
func (s *Shape) Placed(r Recipe) bool {
	small, fine := "Q2_K", "Q4_K"
	switch s.Arch {
	case "deepseek4":
		fine = "MXFP4"
	case "qwen35":
		small, fine = "Q4_K", "Q8_0"
	}
	if s.Name == "ornith-35b" {
		small, fine = "Q4_K", "Q8_0"
	}
	return r.Name == small || r.Name == fine
}
