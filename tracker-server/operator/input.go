package operator

import (
	"bytes"
	"encoding"
	"encoding/json"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// maxBody bounds a request's body, in bytes.
const maxBody = 64 << 10

// readJSON reads the body of a program's request into v, a pointer to a struct;
// an empty body leaves it as it is. Errors: invalid_request, request_too_large.
func readJSON(r *http.Request, v any) error {
	raw, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the request's body cannot be read: %w", err)
	}
	if len(raw) > maxBody {
		return protocol.Errorf(protocol.CodeRequestTooLarge, "a body of more than %d bytes", maxBody)
	}
	if raw = bytes.TrimSpace(raw); len(raw) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if e := protocol.AsError(err); e.Code != protocol.CodeInternal {
			return e
		}
		return protocol.Errorf(protocol.CodeInvalidRequest, "the request's body: %w", err)
	}
	if d.More() {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the request's body goes on after its end")
	}
	return nil
}

// fill puts texts into the fields of v, a pointer to a struct: those with the
// tag path from the request's path, those with json from get, which reads a
// form's or a query's field. Error: invalid_request.
func fill(r *http.Request, v any, get func(string) string) error {
	s := reflect.ValueOf(v).Elem()
	for i := range s.NumField() {
		f, field := s.Type().Field(i), s.Field(i)
		text := ""
		if name := f.Tag.Get("path"); name != "" {
			text = r.PathValue(name)
		} else if get != nil {
			name, _, _ = strings.Cut(f.Tag.Get("json"), ",")
			text = get(name)
		} else {
			continue
		}
		if err := set(field, text); err != nil {
			if e := protocol.AsError(err); e.Code != protocol.CodeInternal {
				e.Param = f.Name
				return e
			}
			return protocol.Errorf(protocol.CodeInvalidRequest, "%s: %.60q cannot be read", f.Name, text)
		}
	}
	return nil
}

// set reads one text. Empty fields are zero values.
func set(field reflect.Value, text string) error {
	if u, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if _, ok := u.(*time.Time); ok {
			return setTime(field, text)
		}
		return u.UnmarshalText([]byte(text))
	}
	switch field.Kind() {
	case reflect.String:
		field.SetString(strings.TrimSpace(text))
	case reflect.Bool:
		field.SetBool(text != "" && text != "false" && text != "0")
	case reflect.Int, reflect.Int64:
		if text == "" {
			return nil
		}
		n, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		field.SetInt(n)
		return err
	case reflect.Pointer: // not given stays nil
		if strings.TrimSpace(text) == "" {
			return nil
		}
		field.Set(reflect.New(field.Type().Elem()))
		return set(field.Elem(), text)
	case reflect.Slice: // of texts, in lines
		for line := range strings.FieldsSeq(text) {
			field.Set(reflect.Append(field, reflect.ValueOf(line)))
		}
	default:
		return protocol.Errorf(protocol.CodeInternal, "a field of the kind %s", field.Kind())
	}
	return nil
}

// timeForms are how people and browsers write a time; without a zone it is UTC.
var timeForms = []string{time.RFC3339Nano, "2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02"}

func setTime(field reflect.Value, text string) error {
	if text = strings.TrimSpace(text); text == "" {
		return nil
	}
	for _, form := range timeForms {
		if t, err := time.Parse(form, text); err == nil {
			field.Set(reflect.ValueOf(t.UTC()))
			return nil
		}
	}
	return protocol.Errorf(protocol.CodeInvalidRequest, "%.40q is not a time, as in 2027-01-31 18:00 (UTC)", text)
}
