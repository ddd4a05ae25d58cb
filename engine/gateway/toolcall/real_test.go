package toolcall

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDetectReal: which form each real template teaches; "" for those that are
// refused when a request has tools.
func TestDetectReal(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("NEURON_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared")
	}
	files, err := filepath.Glob(filepath.Join(dir, "testdata", "templates", "jinja", "*.jinja"))
	if err != nil || len(files) == 0 {
		t.Skipf("SKIPPED: no real chat templates under %s (set NEURON_SHARED)", dir)
	}
	got := map[string]string{}
	for _, f := range files {
		src, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		form, why, ok := Detect(string(src))
		if ok == (why != "") {
			t.Errorf("%s: %v, %q", f, ok, why)
		}
		got[filepath.Base(f)] = form.Name
	}
	if diff := cmp.Diff(map[string]string{
		"Apertus-8B-Instruct.jinja":                      "apertus",
		"ByteDance-Seed-OSS.jinja":                       "seed-oss",
		"GLM-4.6.jinja":                                  "glm",
		"HuggingFaceTB-SmolLM3-3B.jinja":                 "generic",
		"MiMo-VL.jinja":                                  "hermes",
		"Mistral-Small-3.2-24B-Instruct-2506.jinja":      "mistral-args",
		"Qwen-QwQ-32B.jinja":                             "hermes",
		"Qwen-Qwen2.5-7B-Instruct.jinja":                 "hermes",
		"Qwen-Qwen3-0.6B.jinja":                          "hermes",
		"Qwen3-Coder.jinja":                              "qwen3-coder",
		"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B.jinja": "generic",
		"deepseek-ai-DeepSeek-V3.1.jinja":                "generic",
		"ibm-granite-granite-3.3-2B-Instruct.jinja":      "granite",
		"llama-cpp-rwkv-world.jinja":                     "generic",
		"meetkai-functionary-medium-v3.1.jinja":          "functionary",
		"microsoft-Phi-3.5-mini-instruct.jinja":          "generic",
		"mistralai-Mistral-Nemo-Instruct-2407.jinja":     "mistral",
		"openai-gpt-oss-120b.jinja":                      "harmony",
		"unsloth-mistral-Devstral-Small-2507.jinja":      "mistral-args",
	}, got); diff != "" {
		t.Error(diff)
	}
}
