package wire

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"neuron/engine/protocol"
)

func FuzzReadError(f *testing.F) {
	f.Add(`{"code":"hop_lost","message":"m","hop":3,"phase":"decode"}`)
	f.Add(`{"code":"","message":1}`)
	f.Fuzz(func(t *testing.T, body string) {
		e := ReadError(&http.Response{
			StatusCode: 500, Header: http.Header{"Content-Type": {ContentJSON}}, Body: io.NopCloser(strings.NewReader(body)),
		})
		if e == nil || e.Code == "" || len(e.Code) > 64 || len(e.Message) > maxErrorText {
			t.Fatalf("error %+v", e)
		}
		if e.Hop != nil && (*e.Hop < 0 || *e.Hop >= protocol.MaxHops) {
			t.Fatalf("hop %d", *e.Hop)
		}
	})
}
