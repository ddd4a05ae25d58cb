// Package screen tells whether one program fills a whole screen: a game, a film,
// a talk. engine/host imports it; it knows no rules. What each system answers
// with stands in the files screen_linux.go, screen_windows.go and
// screen_other.go.
package screen
