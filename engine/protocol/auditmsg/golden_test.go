package auditmsg_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// update rewrites golden files:
//
//	go test ./engine/protocol/auditmsg -update
var update = flag.Bool("update", false, "rewrite golden files")

const separator = "\n----\n"

// jsonTypes are the JSON objects that reach a wire, and what is inside them.
var jsonTypes = map[string]any{
	"audit-keep":   auditmsg.AuditKeep{},
	"audit-ready":  auditmsg.AuditReady{},
	"audit-result": auditmsg.AuditResult{},
	"audit-run":    auditmsg.AuditRun{},
	"audit-send":   auditmsg.AuditSend{},
	"audit-ticket": auditmsg.AuditTicket{},
}

// fill sets every exported field to a value that is not zero and tells its
// place: strings hold the field's path, numbers count up.
func fill(v reflect.Value, path string, n *int64) {
	*n++
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, n)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1_800_000_000+*n, 0).UTC()))
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), strings.TrimPrefix(path+"."+f.Name, "."), n)
			}
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.Set(reflect.ValueOf(json.RawMessage(`{"raw":true}`)))
			return
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte(path))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path, n)
	case reflect.Map:
		key, val := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, path+".key", n)
		fill(val, path+".value", n)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, val)
	case reflect.String:
		v.SetString(path)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(*n)
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(*n) + 0.5)
	default:
		panic("fill cannot set " + v.Type().String())
	}
}

// TestGoldenJSON holds the names and forms of all JSON fields. Adding a field
// is fine (run with -update); a changed or vanished line breaks older nodes.
func TestGoldenJSON(t *testing.T) {
	for name, zero := range jsonTypes {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "golden", "json-"+name+".txt")
			typ := reflect.TypeOf(zero)
			input := fmt.Sprintf("%s with every field set: strings hold the field's path, numbers count up.", typ)
			full := reflect.New(typ)
			var n int64
			fill(full.Elem(), "", &n)
			out, err := json.MarshalIndent(full.Interface(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			got := string(out) + "\n"
			if *update {
				writeGolden(t, path, input, got)
				return
			}
			_, want := splitGolden(t, path)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("JSON form (-want +got):\n%s", d)
			}
			back := reflect.New(typ)
			dec := json.NewDecoder(bytes.NewReader([]byte(want)))
			dec.DisallowUnknownFields()
			if err := dec.Decode(back.Interface()); err != nil {
				t.Fatal(err)
			}
			raw := cmp.Comparer(func(a, b json.RawMessage) bool { return compact(a) == compact(b) })
			if d := cmp.Diff(full.Interface(), back.Interface(), raw, cmpopts.IgnoreUnexported(protocol.Error{})); d != "" {
				t.Errorf("read back (-want +got):\n%s", d)
			}
		})
	}
}

func compact(b []byte) string {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return string(b)
	}
	return out.String()
}

// splitGolden reads a golden file; a new one has no output yet.
func splitGolden(t *testing.T, path string) (input, want string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	input, want, _ = strings.Cut(string(b), separator)
	return strings.TrimRight(input, "\n"), want
}

func writeGolden(t *testing.T, path, input, output string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(input+separator+output), 0o644); err != nil {
		t.Fatal(err)
	}
}
