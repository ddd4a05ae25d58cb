package gatewaytest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"neuron/internal/filelock"
)

// npmVersion is the version of the npm package openai that tests run.
const npmVersion = "7.59.0"

//go:embed client.mjs
var npmScript []byte

// NPMClient runs the npm package openai against the API. The package is
// installed from the registry into build/; without node, npm or a registry the
// test is skipped, and says so.
func NPMClient(t *testing.T, a API) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: the npm client is not tested, there is no %s", tool)
		}
	}
	dir := npmInstall(t)
	script := filepath.Join(dir, filepath.Base(t.TempDir())+".mjs")
	if err := os.WriteFile(script, npmScript, 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(script)
	cmd := exec.CommandContext(t.Context(), "node", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "BASE_URL="+a.URL, "API_KEY="+key(a.Key), "MODEL="+a.Model, "QUESTION="+Question, "SCHEMA="+Schema)
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "ok\n" {
		t.Errorf("%v: %s", err, out)
	}
}

// key is one that the client takes; it refuses to send none.
func key(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// npmInstall puts the package into build/npm-openai, once.
func npmInstall(t *testing.T) string {
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			t.Fatal("no go.mod above the working directory")
		}
		root = filepath.Dir(root)
	}
	dir := filepath.Join(root, "build", "npm-openai-"+npmVersion)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	done := filepath.Join(dir, "node_modules", "openai", "package.json")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	lock, err := filelock.Wait(filepath.Join(dir, "lock")) // tests of several packages at once
	if err != nil {
		t.Skipf("SKIPPED: the npm client is not tested, another test installs it: %v", err)
	}
	defer lock.Unlock()
	cmd := exec.CommandContext(t.Context(), "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", dir, "openai@"+npmVersion)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: the npm client is not tested, it cannot be installed: %v: %.500s", err, out)
	}
	return dir
}
