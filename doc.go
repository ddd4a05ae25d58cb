// Package neuron holds no code: its tests guard the repository as a whole.
//
// They check what no single package can: which program links what, that every
// package says what it is, that files are complete and documents are true.
// Nothing may import it.
package neuron
