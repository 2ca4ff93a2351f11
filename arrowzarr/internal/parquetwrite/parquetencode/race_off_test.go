//go:build !race

package parquetencode

// raceDetector is whether the race detector is on.
const raceDetector = false
