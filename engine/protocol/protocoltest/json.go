package protocoltest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// JSON holds the names and forms of all JSON fields of the types, each in
// testdata/golden/json-NAME.txt, and reads them back. Adding a field is fine
// (run with -update); a changed or vanished line breaks older nodes.
func JSON(t *testing.T, types map[string]any) {
	t.Helper()
	for name, zero := range types {
		t.Run(name, func(t *testing.T) {
			typ := reflect.TypeOf(zero)
			full := reflect.New(typ)
			fill(full.Elem(), "", new(int64))
			out, err := json.MarshalIndent(full.Interface(), "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			input := fmt.Sprintf("%s with every field set: strings hold the field's path, numbers count up.", typ)
			want := Golden(t, filepath.Join("testdata", "golden", "json-"+name+".txt"), input, string(out)+"\n")
			back := reflect.New(typ)
			dec := json.NewDecoder(strings.NewReader(want))
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

// fill sets every exported field to a value that is not zero and tells its
// place: strings hold the field's path, numbers count up with n.
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

func compact(b []byte) string {
	var out bytes.Buffer
	if err := json.Compact(&out, b); err != nil {
		return string(b)
	}
	return out.String()
}
