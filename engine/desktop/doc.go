// Package desktop is the engine of a person's own computer as a value: a node, a
// gateway and the policy of sharing in one process, with a local API that is
// there from the first second, whatever is wrong or not set yet.
//
// It puts engine/program, engine/policy and the parts below this folder
// together: desktop/settings (what the user has chosen), desktop/today (what was
// done today), desktop/report (a text for those who help). Only the engine's
// command line and tests import it.
//
// Layout of the data folder: settings.json, today.json, the owner key, the local
// API's address and token, logs/; node/ and gateway/ are the folders of the two
// programs, update/ has newer versions of Neuron; window/ belongs to the window.
package desktop
