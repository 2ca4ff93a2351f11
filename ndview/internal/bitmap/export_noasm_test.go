//go:build !amd64

package bitmap

func setVectors(bool) {}
