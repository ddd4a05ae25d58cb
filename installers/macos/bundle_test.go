// Package macos holds the tests of the application bundle that the scripts beside it
// make. Nothing imports it.
package macos

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"neuron/internal/desktop/launch"
	"neuron/llama"
)

// decode reads a plist as its XML has it: dictionaries, arrays, strings and
// truths. What it does not know is an error.
func decode(b []byte) (any, error) {
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		if s, ok := tok.(xml.StartElement); ok && s.Name.Local == "plist" {
			return value(d)
		}
	}
}

// errEnd is the end of a dictionary or an array.
var errEnd = errors.New("end")

func value(d *xml.Decoder) (any, error) {
	for {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch tok := tok.(type) {
		case xml.EndElement:
			return nil, errEnd
		case xml.StartElement:
			switch name := tok.Name.Local; name {
			case "true", "false":
				return name == "true", d.Skip()
			case "string", "key":
				var s string
				err := d.DecodeElement(&s, &tok)
				return s, err
			case "array":
				return list(d)
			case "dict":
				all, err := list(d)
				if err != nil {
					return nil, err
				}
				return pairs(all)
			default:
				return nil, fmt.Errorf("unknown element %s", name)
			}
		}
	}
}

func list(d *xml.Decoder) ([]any, error) {
	var all []any
	for {
		v, err := value(d)
		if errors.Is(err, errEnd) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
}

func pairs(all []any) (map[string]any, error) {
	out := map[string]any{}
	if len(all)%2 != 0 {
		return nil, errors.New("a key without a value")
	}
	for i := 0; i < len(all); i += 2 {
		k, ok := all[i].(string)
		if _, twice := out[k]; !ok || twice {
			return nil, fmt.Errorf("key %v is no text, or there twice", all[i])
		}
		out[k] = all[i+1]
	}
	return out, nil
}

func TestDecodeRefusesDamage(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "<plist>", "<plist><dict><key>a</key></dict></plist>", "<plist><dict><key>a</key><true/><key>a</key><true/></dict></plist>", "<plist><date/></plist>"} {
		if v, err := decode([]byte(s)); err == nil || errors.Is(err, io.ErrUnexpectedEOF) && v != nil {
			t.Errorf("%q: %v", s, v)
		}
	}
}

const version = "1.2.3-dev+gabcdef"

// bundle has the script lay out an app of programs that are none.
func bundle(t *testing.T) string {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("SKIPPED: the script wants a shell")
	}
	dir := t.TempDir()
	write := func(path string) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(filepath.Base(path)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{launch.WindowName, launch.TrayName, launch.EngineName} {
		write("programs/" + p)
	}
	// As the package for Apple's processors has them.
	for _, l := range []string{"libggml-base.dylib", "libggml-metal.so", "libggml.metal.v" + llama.NativeVersion + ".dylib", "libllama.metal.v" + llama.NativeVersion + ".dylib", "LICENSE", ".installed"} {
		write("native/" + l)
	}
	write("licences/THIRD-PARTY.txt")
	cmd := exec.CommandContext(t.Context(), "../../scripts/package-macos.sh", "layout")
	cmd.Env = append(os.Environ(), "VERSION="+version, "WORK="+filepath.Join(dir, "work"), "PROGRAMS="+filepath.Join(dir, "programs"), "NATIVE="+filepath.Join(dir, "native"), "LICENCES="+filepath.Join(dir, "licences"))
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: %s", err, out)
	}
	return filepath.Join(dir, "work", "Neuron.app", "Contents")
}

func TestBundle(t *testing.T) {
	t.Parallel()
	contents := bundle(t)
	var got []string
	err := filepath.WalkDir(contents, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			got = append(got, strings.TrimPrefix(path, contents+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	v := llama.NativeVersion
	// The engine looks for its libraries in ../Frameworks and for the guide model
	// in ../Resources; the programs look for each other beside themselves.
	want := []string{
		"Frameworks/libggml-base.dylib", "Frameworks/libggml-metal.so", "Frameworks/libggml.metal.v" + v + ".dylib", "Frameworks/libllama.metal.v" + v + ".dylib",
		"Info.plist", "MacOS/neuron", "MacOS/neuron-engine", "MacOS/neuron-tray", "PkgInfo",
		"Resources/app.icns", "Resources/guide-q8_0.gguf",
		"Resources/licences/Neuron.txt", "Resources/licences/THIRD-PARTY.txt", "Resources/licences/llama.cpp.txt",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the bundle has\n%s", strings.Join(got, "\n"))
	}
	for _, p := range []string{launch.WindowName, launch.TrayName, launch.EngineName} {
		if info, err := os.Stat(filepath.Join(contents, "MacOS", p)); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v", p, info, err)
		}
	}
}

func TestInfo(t *testing.T) {
	t.Parallel()
	contents := bundle(t)
	b, err := os.ReadFile(filepath.Join(contents, "Info.plist"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := decode(b)
	if err != nil {
		t.Fatal(err)
	}
	info, ok := v.(map[string]any)
	if !ok {
		t.Fatalf("no dictionary: %v", v)
	}
	for key, want := range map[string]any{
		"CFBundleExecutable": launch.WindowName, "CFBundlePackageType": "APPL", "CFBundleIconFile": "app.icns",
		"CFBundleShortVersionString": version, "CFBundleVersion": "1.2.3", "LSUIElement": true, "NSHighResolutionCapable": true,
	} {
		if info[key] != want {
			t.Errorf("%s is %v, not %v", key, info[key], want)
		}
	}
	// The name under which the window's toolkit and FyneApp.toml know the app.
	toml, err := os.ReadFile("../../FyneApp.toml")
	if err != nil {
		t.Fatal(err)
	}
	if id := regexp.MustCompile(`(?m)^ID = "(.*)"$`).FindSubmatch(toml); id == nil || info["CFBundleIdentifier"] != string(id[1]) {
		t.Errorf("the bundle is %v, and FyneApp.toml says %s", info["CFBundleIdentifier"], id)
	}
	for _, name := range []any{info["CFBundleIconFile"], "guide-q8_0.gguf"} {
		if _, err := os.Stat(filepath.Join(contents, "Resources", fmt.Sprint(name))); err != nil {
			t.Error(err)
		}
	}
	for path, want := range map[string]string{
		"CFBundleURLTypes/0/CFBundleURLSchemes/0":                                         "neuron",
		"CFBundleDocumentTypes/0/LSItemContentTypes/0":                                    "network.neuron.gguf",
		"CFBundleDocumentTypes/0/LSHandlerRank":                                           "Alternate",
		"UTImportedTypeDeclarations/0/UTTypeIdentifier":                                   "network.neuron.gguf",
		"UTImportedTypeDeclarations/0/UTTypeTagSpecification/public.filename-extension/0": "gguf",
	} {
		if got := at(v, path); got != want {
			t.Errorf("%s is %v, not %s", path, got, want)
		}
	}
	if bytes.Contains(b, []byte("@")) {
		t.Error("a place for a value is empty")
	}
}

// at follows a path of keys and of numbers 0.
func at(v any, path string) any {
	for step := range strings.SplitSeq(path, "/") {
		switch w := v.(type) {
		case map[string]any:
			v = w[step]
		case []any:
			if step != "0" || len(w) == 0 {
				return nil
			}
			v = w[0]
		default:
			return nil
		}
	}
	return v
}
