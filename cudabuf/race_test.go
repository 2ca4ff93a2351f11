//go:build race

package cudabuf_test

// underRace reports that the race detector is on, which makes a sync.Pool drop items at
// random.
const underRace = true
