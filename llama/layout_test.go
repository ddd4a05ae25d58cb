package llama

import (
	"errors"
	"strings"
	"testing"
	"unsafe"
)

func TestLayoutOfTheRealLibrary(t *testing.T) {
	load(t)
	if err := checkLayout(readDefaults()); err != nil {
		t.Fatal(err)
	}
	for name, size := range map[string][2]uintptr{
		"model params":    {unsafe.Sizeof(modelParams{}), 80},
		"context params":  {unsafe.Sizeof(contextParams{}), 160},
		"quantize params": {unsafe.Sizeof(quantizeParams{}), 64},
		"batch":           {unsafe.Sizeof(batchData{}), 56},
		"pool params":     {unsafe.Sizeof(poolParams{}), 528},
		"tensor":          {unsafe.Sizeof(ggmlTensor{}), 336},
		"candidates":      {unsafe.Sizeof(tokenDataArray{}), 32},
	} {
		if size[0] != size[1] {
			t.Errorf("%s: %d bytes, want %d", name, size[0], size[1])
		}
	}
}

// A library whose struct has one field more or less puts everything behind it
// elsewhere. Each planted shift must be found.
func TestLayoutFindsPlantedMistakes(t *testing.T) {
	load(t)
	good := readDefaults()
	shift := func(p unsafe.Pointer, size uintptr, at, by int) {
		b := unsafe.Slice((*byte)(p), size)
		copy(b[at+by:], append([]byte(nil), b[at:len(b)-by]...))
		clear(b[at : at+by])
	}
	cases := map[string]func(d *defaults){
		"context params without n_outputs_max_per_seq": func(d *defaults) {
			b := unsafe.Slice((*byte)(unsafe.Pointer(&d.Context)), unsafe.Sizeof(d.Context))
			copy(b[24:], b[28:])
		},
		"context params with a field more in the middle": func(d *defaults) {
			shift(unsafe.Pointer(&d.Context), unsafe.Sizeof(d.Context), 40, 4)
		},
		"context params with a bool more": func(d *defaults) {
			shift(unsafe.Pointer(&d.Context), unsafe.Sizeof(d.Context), 128, 1)
		},
		"model params with two enums less": func(d *defaults) {
			b := unsafe.Slice((*byte)(unsafe.Pointer(&d.Model)), unsafe.Sizeof(d.Model))
			copy(b[24:], b[32:])
		},
		"model params with a bool more": func(d *defaults) {
			shift(unsafe.Pointer(&d.Model), unsafe.Sizeof(d.Model), 72, 1)
		},
		"quantize params with an enum more": func(d *defaults) {
			shift(unsafe.Pointer(&d.Quantize), unsafe.Sizeof(d.Quantize), 4, 4)
		},
		"chain params":                  func(d *defaults) { d.Chain.NoPerf = 0 },
		"thread pool of another size":   func(d *defaults) { shift(unsafe.Pointer(&d.Pool), unsafe.Sizeof(d.Pool), 512, 4) },
		"tensor name elsewhere":         func(d *defaults) { d.Probe.NameOffset += 8 },
		"tensor data elsewhere":         func(d *defaults) { d.Probe.Data += 8 },
		"tensor with a field more":      func(d *defaults) { shift(unsafe.Pointer(&d.Probe.Tensor), 336, 8, 8) },
		"no tensor at all":              func(d *defaults) { d.Probe = tensorProbe{} },
		"another number of types":       func(d *defaults) { d.Quantize.OutputType++ },
		"another default of flash attn": func(d *defaults) { d.Context.FlashAttn = 0 },
	}
	for name, plant := range cases {
		t.Run(name, func(t *testing.T) {
			d := good
			plant(&d)
			err := checkLayout(d)
			if !errors.Is(err, &Error{Code: CodeNativeLayout}) {
				t.Fatalf("got %v, want native_layout", err)
			}
		})
	}
}

func TestEveryBindIsDistinctAndResolves(t *testing.T) {
	load(t)
	dir, err := NativeDir()
	if err != nil {
		t.Fatal(err)
	}
	libs := map[int]uintptr{}
	for lib, stem := range map[int]string{libLlama: "llama", libGGML: "ggml", libBase: "ggml-base"} {
		path, err := findLibrary(dir, stem)
		if err != nil {
			t.Fatal(err)
		}
		if libs[lib], err = openLibrary(path); err != nil {
			t.Fatal(err)
		}
	}
	seen := map[string]bool{}
	targets := map[any]string{}
	for _, b := range allBinds() {
		if seen[b.name] {
			t.Errorf("%s is bound twice", b.name)
		}
		seen[b.name] = true
		if other, ok := targets[b.to]; ok {
			t.Errorf("%s and %s share a variable", b.name, other)
		}
		targets[b.to] = b.name
		if addr, err := librarySymbol(libs[b.lib], b.name); err != nil || addr == 0 {
			t.Errorf("%s does not resolve: %v", b.name, err)
		}
	}
	if len(seen) < 90 {
		t.Errorf("only %d functions are bound", len(seen))
	}
}

func TestLibraryNames(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, goos, stem string
		want             int
	}{
		{"libllama.v0.4.0.so", "linux", "llama", libraryMatch},
		{"libllama.vulkan.v0.4.0.so", "linux", "llama", libraryMatch},
		{"libllama.metal.v0.4.0.dylib", "darwin", "llama", libraryMatch},
		{"llama.v0.4.0.dll", "windows", "llama", libraryMatch},
		{"ggml.vulkan.v0.4.0.dll", "windows", "ggml", libraryMatch},
		{"libggml-base.so", "linux", "ggml", libraryNoMatch},
		{"libggml-cpu-haswell.so", "linux", "ggml", libraryNoMatch},
		{"libllama.v0.5.0.so", "linux", "llama", libraryOtherVersion},
		{"libllama.cuda.v0.5.0.so", "linux", "llama", libraryOtherVersion},
		{"libllama.so", "linux", "llama", libraryNoMatch},
		{"libllama-common.so", "linux", "llama", libraryNoMatch},
	} {
		prefix, ext := libraryAffixes(c.goos)
		if got := matchLibrary(c.name, prefix, c.stem, ext); got != c.want {
			t.Errorf("%s as %s on %s: %d, want %d", c.name, c.stem, c.goos, got, c.want)
		}
	}
}

func TestNativeDirSaysHowToInstall(t *testing.T) {
	t.Setenv(NativeDirEnv, t.TempDir())
	_, err := NativeDir()
	if !errors.Is(err, &Error{Code: CodeNativeMissing}) {
		t.Fatalf("got %v", err)
	}
	t.Setenv(NativeDirEnv, "")
	t.Chdir(t.TempDir())
	if _, err := NativeDir(); err == nil || !strings.Contains(err.Error(), "install.sh") {
		t.Fatalf("got %v, want the install hint", err)
	}
}

func TestLoadTwice(t *testing.T) {
	load(t)
	load(t)
	if err := Load(t.TempDir()); !errors.Is(err, &Error{Code: CodeNativeLoaded}) {
		t.Fatalf("got %v, want native_loaded", err)
	}
	if v := Version(); !strings.HasPrefix(v, NativeVersion) {
		t.Errorf("version %q", v)
	}
	if CPUVariant() == "" || SystemInfo() == "" {
		t.Errorf("variant %q, system %q", CPUVariant(), SystemInfo())
	}
	var cpu bool
	for _, d := range Devices() {
		cpu = cpu || d.Kind == DeviceCPU && d.Name != "" && d.MemTotal > 0
	}
	if !cpu {
		t.Errorf("no CPU among %v", Devices())
	}
}
