// Package update looks for newer versions of Neuron while the engine runs: it
// reads the publisher's signed list of releases, says what is new, and fetches a
// package when the user wants it. It installs nothing by itself.
//
// engine/desktop owns the one Keeper and hands it to the local API, whose types
// it speaks; what a list is and when it is believed is engine/update/feed's. The
// package knows no node, no gateway and no settings but those in Settings.
//
// Layout of its folder: state.json (what was seen), feed.json (the newest good
// list as it was signed), and the package, as NAME.part while it is fetched.
package update
