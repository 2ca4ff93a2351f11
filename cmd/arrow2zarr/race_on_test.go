//go:build race

package main

// raceDetector is whether the race detector, which multiplies memory, is on.
const raceDetector = true
