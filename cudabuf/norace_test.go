//go:build !race

package cudabuf_test

const underRace = false
