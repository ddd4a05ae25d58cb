// Package locale makes the language of the environment one that Fyne can read,
// before Fyne reads it: of C.UTF-8 and of de_DE@euro it reports an error each time
// the window starts.
//
// The program of the window imports it for that alone. Fyne looks before main
// begins. This package is earlier: it needs strings and os and nothing else, and
// of the packages that are ready Go initializes the one first whose path sorts
// first, this one before text/template, which Fyne's translations need. A test
// holds it to that.
package locale
