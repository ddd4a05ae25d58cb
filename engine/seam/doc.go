// Package seam moves frames between the hops of a route: it is the server in
// front of a stage. Package seamclient is the client with which a driver or an
// earlier hop talks to it. Frames travel as binary HTTP/1.1 over TLS 1.3
// between pinned node keys.
//
// The composition of the engine, tests, and the packages that implement its
// interfaces (engine/stage, engine/audit, engine/receipt/hooks) import it. It
// knows stages only through the Stage interface: nothing here may know libllama,
// processes, model files, the tracker's channel or the API.
//
// A route session has, per hop, one POST that opens it, one long-lived
// full-duplex stream from the previous hop (row frames down, acknowledgements
// and errors up), and on the tail one GET on which tokens go straight to the
// driver. The goroutines of a session are described at type session.
//
// Rules of net/http that shape the code, each found by measuring:
//
//   - a handler must enable full duplex and flush its headers before its first
//     read of the body, or the client's round trip never returns;
//   - a server-wide read or write timeout kills a healthy stream, and a frozen
//     peer gives no error at all: both ends send a frame every second, and set
//     deadlines per read and write;
//   - Shutdown waits for ever for streams, so sessions are ended first.
package seam
