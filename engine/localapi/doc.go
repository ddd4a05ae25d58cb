// Package localapi is the engine's local API: what the window, the tray and
// the command line see of a running engine, and how they end it.
//
// Server and Client live here together so that they cannot drift apart. The
// engine's composition owns the Server and gives it a Source; window and tray
// import the Client alone. The package knows no session, stage or tracker, only
// the JSON types in types.go and owner.go, and those of engine/accounts.
//
// It listens on loopback only and treats a browser as an attacker: Host must
// be a loopback name (DNS rebinding), requests that carry Origin or a
// Sec-Fetch-Site of another site are refused (cross-site requests), and every
// request needs the bearer token from a file that only this user can read.
package localapi
