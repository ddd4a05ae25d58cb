package gateway

import (
	"encoding/json"
	"net/http"
	"strconv"

	"neuron/engine/protocol"
)

// apiError is OpenAI's error object with our additions behind it.
type apiError struct {
	Message string            `json:"message"`
	Type    string            `json:"type"`
	Param   *string           `json:"param"`
	Code    protocol.Code     `json:"code"`
	Hop     *int              `json:"hop,omitempty"`
	Phase   protocol.Phase    `json:"phase,omitempty"`
	Detail  map[string]string `json:"detail,omitempty"`
	Remedy  string            `json:"remedy,omitempty"`
}

type errorBody struct {
	Error apiError `json:"error"`
}

func toBody(e *protocol.Error) errorBody {
	a := apiError{Message: e.Message, Type: e.Code.OpenAIType(), Code: e.Code, Hop: e.Hop, Phase: e.Phase, Detail: e.Detail, Remedy: e.Code.Remedy()}
	if e.Param != "" {
		a.Param = &e.Param
	}
	return errorBody{a}
}

// retryStopping is Retry-After of a gateway that stops, in seconds: most are
// started again, from newer files.
const retryStopping = "10"

// writeError answers with e and its status; status 0 takes the code's own.
func writeError(w http.ResponseWriter, e *protocol.Error, status int) {
	if status == 0 {
		status = e.Code.HTTPStatus()
	}
	if e.Code == protocol.CodeRateLimited {
		after := e.Detail["retry_after"]
		if after == "" {
			after = "1"
		}
		w.Header().Set("Retry-After", after)
	}
	if e.Code == protocol.CodeShutdown {
		w.Header().Set("Retry-After", retryStopping)
	}
	if e.Code == protocol.CodeUnauthorized {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	writeJSON(w, status, toBody(e))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil { // only types of this package come here, none can fail
		status, raw = http.StatusInternalServerError, []byte(`{"error":{"message":"internal error","type":"server_error","param":null,"code":"internal"}}`)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	w.Write(raw)
}

// badParam is a 400 that names the field.
func badParam(param, format string, args ...any) *protocol.Error {
	e := protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
	e.Param = param
	return e
}

// unsupported refuses a field that this build does not implement and that
// would change the answer.
func unsupported(param string) *protocol.Error {
	e := protocol.Errorf(protocol.CodeUnsupported, "%s is not supported here", param)
	e.Param = param
	return e
}
