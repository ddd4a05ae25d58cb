package gateway

import "testing"

// FuzzBody: whatever a body holds, a mistake is a 400 that names a field.
func FuzzBody(f *testing.F) {
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"stop":["a"],"logit_bias":{"1":-100}}`))
	f.Add([]byte(`{"model":"m","prompt":[[1,2],"x"],"logprobs":3,"n":2,"stream":true,"stream_options":{"include_usage":true}}`))
	f.Add([]byte(`{"tools":[],"tool_choice":{"type":"function"},"response_format":{"type":"json_object"},"neuron":{"policy":"x"}}`))
	f.Add([]byte(`{"model":"m","messages":[{"role":"assistant","tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]}],"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, parse := range []func(*fields) params{
			func(f *fields) params { return parseChat(f).p },
			func(f *fields) params { return parseText(f).p },
		} {
			fs, err := parseFields(body)
			if err != nil {
				if err.Code.HTTPStatus() != 400 {
					t.Errorf("%v", err)
				}
				continue
			}
			p := parse(fs)
			if fs.err != nil {
				if fs.err.Code.HTTPStatus() != 400 || fs.err.Param == "" {
					t.Errorf("%v names no field", fs.err)
				}
				continue
			}
			if p.n < 1 || p.n > maxN || p.model == "" || len(p.stops) > maxStops {
				t.Errorf("accepted %+v", p)
			}
		}
	})
}
