package neuron

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// programs says what each program must not link, whatever the path by which it
// would come in. Reasons: the engine runs headless, the tracker on a server
// without native libraries, and a crash of libllama, BitTorrent or OpenGL must
// not take the window or the tray down.
var programs = []struct {
	pkg    string
	noCgo  bool     // has to build without cgo
	forbid []string // import paths, each with everything below it
}{
	{"./engine", true, []string{"fyne.io/fyne", "fyne.io/systray", "neuron/app", "neuron/tray", "neuron/tracker-server"}},
	// Publishing reads GGUF files (llama/gguf) and knows families (llama/family);
	// libllama comes with purego.
	{"./tracker-server", true, []string{
		"fyne.io", "neuron/llama/cut", "neuron/llama/exec", "neuron/llama/synth", "github.com/ebitengine/purego", "neuron/app", "neuron/tray",
		"neuron/engine/artifact", "neuron/engine/swarm", "neuron/engine/stage", "neuron/engine/seam", "neuron/engine/gateway", "neuron/engine/session",
	}},
	{"./app", false, []string{"neuron/llama", "github.com/ebitengine/purego", "github.com/anacrolix", "neuron/engine/stage", "neuron/engine/seam", "neuron/tracker-server"}},
	{"./tray", true, []string{"neuron/llama", "github.com/ebitengine/purego", "github.com/anacrolix", "fyne.io/fyne", "neuron/engine/stage", "neuron/engine/seam", "neuron/tracker-server"}},
}

// below reports whether the import path is root or lies under it. Versioned
// roots count too: "fyne.io/fyne" covers "fyne.io/fyne/v2/widget".
func below(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

func goList(t *testing.T, noCgo bool, args ...string) []string {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list"}, args...)...)
	cmd.Env = os.Environ()
	if noCgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=0")
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

func TestProgramDependencies(t *testing.T) {
	t.Parallel()
	pkgs := goPackages(t)
	for _, p := range programs {
		t.Run(strings.TrimPrefix(p.pkg, "./"), func(t *testing.T) {
			if pkgs[strings.TrimPrefix(p.pkg, "./")] == nil {
				t.Fatalf("%s has no Go files", p.pkg)
			}
			for _, dep := range goList(t, p.noCgo, "-deps", p.pkg) {
				for _, f := range p.forbid {
					if below(dep, f) {
						t.Errorf("links %s", dep)
					}
				}
				if p.noCgo && dep == "runtime/cgo" {
					t.Error("needs cgo")
				}
			}
		})
	}
}

// windowPages are the window's pages, each a package of app/ui.
var windowPages = []string{"share", "models", "chat", "earnings", "network", "settings", "diagnostics", "wizard"}

func pagesOf(root string) (out []string) {
	for _, p := range windowPages {
		out = append(out, root+p)
	}
	return out
}

// layers are rules about direct imports between our own packages; the same
// rules stand in .golangci.yml, with their reasons, for the editor.
var layers = []struct {
	name   string
	of     func(pkg string) bool
	allow  []string // own packages that may be imported; nil: any
	forbid []string
}{
	{"vocabulary", func(p string) bool { return p == "neuron/engine/protocol" }, []string{}, nil},
	{"gguf is a file format", func(p string) bool { return below(p, "neuron/llama/gguf") }, []string{"neuron/llama/gguf"}, nil},
	{"llama knows no network", func(p string) bool { return below(p, "neuron/llama") }, nil, []string{"neuron/engine", "neuron/tracker-server", "neuron/app", "neuron/tray"}},
	{"tracker", func(p string) bool { return below(p, "neuron/tracker-server") }, []string{"neuron/tracker-server", "neuron/engine/protocol", "neuron/engine/manifest", "neuron/internal"}, nil},
	{"a manifest is a file format", func(p string) bool { return p == "neuron/engine/manifest" }, []string{"neuron/engine/protocol"}, nil},
	{"the planner is pure", func(p string) bool { return p == "neuron/engine/planner" }, []string{"neuron/engine/protocol", "neuron/engine/manifest"}, nil},
	{"the book of numeric audits is pure", func(p string) bool { return p == "neuron/tracker-server/audit/numeric" }, []string{"neuron/engine/protocol"}, nil},
	{"audits know seam and frames", func(p string) bool { return p == "neuron/engine/audit" }, []string{"neuron/engine/protocol", "neuron/engine/seam"}, nil},
	{"a standing is pure", func(p string) bool { return p == "neuron/tracker-server/standing" }, []string{"neuron/engine/protocol"}, nil},
	{"the policy is pure", func(p string) bool { return p == "neuron/engine/policy" }, []string{"neuron/engine/protocol"}, nil},
	{"the host knows the rules by their needs", func(p string) bool { return below(p, "neuron/engine/host") }, []string{"neuron/engine/host", "neuron/engine/policy", "neuron/engine/probe"}, nil},
	{"a wallet knows no network", func(p string) bool { return p == "neuron/engine/wallet" }, []string{"neuron/engine/protocol", "neuron/internal"}, nil},
	{"the window links the account client", func(p string) bool { return p == "neuron/engine/accounts" }, []string{"neuron/engine/protocol", "neuron/internal"}, nil},
	{"placement is pure", func(p string) bool { return below(p, "neuron/tracker-server/placement") }, []string{"neuron/engine/protocol", "neuron/engine/manifest", "neuron/tracker-server/placement"}, nil},
	{"stored sessions are a translation", func(p string) bool { return p == "neuron/tracker-server/sessions/stored" }, []string{"neuron/engine/protocol", "neuron/tracker-server/sessions", "neuron/tracker-server/store"}, nil},
	{"the catalog knows no node", func(p string) bool { return p == "neuron/tracker-server/catalog" }, []string{"neuron/engine/protocol", "neuron/engine/manifest", "neuron/internal/torrentfile", "neuron/tracker-server/announce", "neuron/tracker-server/store"}, nil},
	{"proofs are shown out of the store", func(p string) bool { return p == "neuron/tracker-server/proofs" }, []string{"neuron/engine/protocol", "neuron/tracker-server/store"}, nil},
	{"billing knows no connection and no route", func(p string) bool { return p == "neuron/tracker-server/billing" }, nil, []string{"neuron/tracker-server/channel", "neuron/tracker-server/registry", "neuron/tracker-server/routing", "neuron/tracker-server/web", "neuron/tracker-server/server"}},
	{"a shelf knows no network", func(p string) bool { return p == "neuron/engine/artifact/shelf" }, nil, []string{"neuron/engine/swarm", "neuron/engine/control", "neuron/engine/stage", "neuron/tracker-server"}},
	{"gateway stands on its own interface", func(p string) bool { return below(p, "neuron/engine/gateway") }, nil, []string{"neuron/llama", "neuron/engine/seam", "neuron/engine/stage", "neuron/engine/session"}},
	{"seam carries frames for anyone", func(p string) bool { return below(p, "neuron/engine/seam") }, nil, []string{"neuron/llama", "neuron/engine/stage", "neuron/engine/gateway"}},
	{"what a seam decides and agrees on is apart from its connections", func(p string) bool { return p == "neuron/engine/seam/flow" || p == "neuron/engine/seam/wire" }, []string{"neuron/engine/protocol"}, nil},
	{"themes and components know no page and no engine", func(p string) bool { return p == "neuron/app/ui/theme" || p == "neuron/app/ui/kit" }, []string{"neuron/app/ui/theme"}, nil},
	{"pages know components and what they agree on, and not each other", func(p string) bool {
		return below(p, "neuron/app/ui") && slices.Contains(windowPages, strings.TrimPrefix(p, "neuron/app/ui/"))
	}, nil, append(pagesOf("neuron/app/ui/"), "neuron/app/ui/shell")},
	{"the shell knows pages by their interface", func(p string) bool { return p == "neuron/app/ui/shell" }, []string{
		"neuron/app/ui/kit", "neuron/app/ui/page", "neuron/app/ui/theme", "neuron/internal/desktop", "neuron/engine/localapi", "neuron/engine/protocol",
	}, nil},
	{"view models know no screen", func(p string) bool { return below(p, "neuron/app/viewmodel") }, nil, []string{"neuron/app/ui"}},
	{"a seam's client knows no stage", func(p string) bool { return p == "neuron/engine/seam/seamclient" }, []string{"neuron/engine/protocol", "neuron/engine/seam/flow", "neuron/engine/seam/tlsio", "neuron/engine/seam/wire", "neuron/internal/identity"}, nil},
}

func TestLayers(t *testing.T) {
	t.Parallel()
	imports := make(map[string][]string)
	for _, line := range goList(t, true, "-e", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...") {
		if f := strings.Fields(line); len(f) > 0 {
			imports[f[0]] = f[1:]
		}
	}
	for _, l := range layers {
		found := false
		for pkg, deps := range imports {
			if !l.of(pkg) {
				continue
			}
			found = true
			for _, d := range deps {
				if !strings.HasPrefix(d, "neuron/") {
					continue
				}
				under := func(root string) bool { return below(d, root) }
				if l.allow != nil && !slices.ContainsFunc(l.allow, under) || slices.ContainsFunc(l.forbid, under) {
					t.Errorf("%s: %s imports %s", l.name, pkg, d)
				}
			}
		}
		if !found {
			t.Errorf("%s: the rule matches no package", l.name)
		}
	}
	// The vocabulary imports the standard library alone.
	for _, d := range imports["neuron/engine/protocol"] {
		if first, _, _ := strings.Cut(d, "/"); strings.Contains(first, ".") {
			t.Errorf("neuron/engine/protocol imports %s", d)
		}
	}
}

// Fyne's app package needs cgo and OpenGL: only the program has it, so that
// everything else of the window is tested without. View models, the chat's store
// and what tray and window share know no toolkit at all.
func TestWhereFyneIs(t *testing.T) {
	t.Parallel()
	for _, line := range goList(t, true, "-e", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...") {
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		without := below(f[0], "neuron/app/viewmodel") || below(f[0], "neuron/app/chat") || below(f[0], "neuron/internal") || below(f[0], "neuron/tray")
		for _, d := range f[1:] {
			if d == "fyne.io/fyne/v2/app" && f[0] != "neuron/app" {
				t.Errorf("%s imports %s", f[0], d)
			}
			if without && below(d, "fyne.io/fyne") {
				t.Errorf("%s imports %s", f[0], d)
			}
		}
	}
}

// The binding has one user: the stage process. Everything else would run
// libllama, which aborts on a failed assertion, where it must not.
func TestOneUserOfTheBinding(t *testing.T) {
	t.Parallel()
	allowed := []string{
		"neuron/llama",                 // its own parts
		"neuron/engine/stage/worker",   // the stage process
		"neuron/internal/acceptance",   // the reference to compare with
		"neuron/internal/bench",        // the baseline to compare with
		"neuron/internal/cmd/families", // each model in a process of its own
	}
	for _, line := range goList(t, true, "-e", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...") {
		f := strings.Fields(line)
		if len(f) == 0 || !slices.Contains(f[1:], "neuron/llama") {
			continue
		}
		if !slices.ContainsFunc(allowed, func(root string) bool { return below(f[0], root) }) {
			t.Errorf("%s imports neuron/llama", f[0])
		}
	}
}

// BitTorrent runs in a process of its own; the engine links it only through the
// command that is that process.
func TestOneUserOfBitTorrent(t *testing.T) {
	t.Parallel()
	for _, line := range goList(t, true, "-e", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", "./...") {
		f := strings.Fields(line)
		if len(f) == 0 || !slices.Contains(f[1:], "github.com/anacrolix/torrent") {
			continue
		}
		if f[0] != "neuron/engine/swarm/worker" {
			t.Errorf("%s imports the BitTorrent client", f[0])
		}
	}
}
