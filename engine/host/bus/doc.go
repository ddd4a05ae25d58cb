// Package bus calls methods on D-Bus, the message bus of Linux desktops: one
// connection to a bus, made when it is needed and made anew when it was lost.
// Packages under engine/host import it; it knows no service by name. On other
// systems it is empty.
package bus
