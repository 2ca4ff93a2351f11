//go:build race

package cudabuf_test

// underRace: the race detector lets a sync.Pool forget at random.
const underRace = true
