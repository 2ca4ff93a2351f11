// Package syslib opens C libraries of the system at run time, so that the build needs no
// C compiler and programs run without the libraries, too.
package syslib

// Disabled is the environment variable that, if not empty, makes Open return false. It
// lets tests and benchmarks run the Go implementations.
const Disabled = "QUIVER_GO_CODECS"
