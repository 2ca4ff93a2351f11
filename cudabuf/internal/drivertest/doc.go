// Package drivertest is what every driver of package driver passes: one
// conformance suite, run against the soft driver everywhere and, with
// QUIVER_TEST_DEVICE=cuda, against the driver of the machine's GPU.
package drivertest
