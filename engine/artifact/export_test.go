package artifact

// Halves is for the test that certifies them.
var Halves = halves
