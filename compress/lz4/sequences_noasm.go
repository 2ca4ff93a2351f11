//go:build !amd64

package lz4

const fastSequences = false

func decodeSequences(_ []byte, out int, _ []byte, in int) (newOut, newIn int) { return out, in }
