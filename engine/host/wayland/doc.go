// Package wayland asks a Wayland compositor how long the user has been away, by
// the protocol ext-idle-notify-v1 (KWin, Sway, Hyprland, COSMIC and others; not
// GNOME, which answers on D-Bus). It speaks just enough of the wire format for
// that. Packages under engine/host import it; on other systems than Linux it has
// the wire format alone.
package wayland
