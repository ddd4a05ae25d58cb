// Package e2e tries the window as people use it: the real program on a screen
// and a session bus of its own, with the real engine and a real tracker, driven
// by the keyboard and looked at by pictures and through the local API.
//
// It has nothing but tests. They need Linux with Xvfb, dbus-daemon and software
// OpenGL, and say so where these are missing.
package e2e
