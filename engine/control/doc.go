// Package control is the engine's side of the control channel: one websocket
// to the tracker that carries hello, reports, route questions and telemetry as
// JSON messages (protocol.Envelope).
//
// The engine's composition owns a Client and runs it; engine/session uses it as
// its router. It knows the tracker and nothing else: no seam, no stage, no
// model. It never decides anything about routes (invariant 5); it asks, and
// hands over the answer unread but for its shape.
package control
