// Package x11 asks an X server how long the user has been away, and whether one
// window fills a screen. Packages under engine/host import it; it knows nothing
// of what for. On other systems than Linux it is empty.
package x11
