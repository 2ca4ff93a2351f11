//go:build race

package parquetencode

// raceDetector is whether the race detector, which makes a sync.Pool drop items, is on.
const raceDetector = true
