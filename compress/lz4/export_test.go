package lz4

import (
	"math/rand/v2"
	"testing"
)

// SetPieces sets the size of pieces, and up to which size an output is one piece.
func SetPieces(t testing.TB, bytes, one int64) {
	piecesBefore, oneBefore := pieceBytes, onePiece
	pieceBytes, onePiece = bytes, one
	t.Cleanup(func() { pieceBytes, onePiece = piecesBefore, oneBefore })
}

// ShortSequences returns a block of n sequences of three bytes. A reader that begins at
// another byte of one never meets the right ones.
func ShortSequences(r *rand.Rand, n int) (block []byte, size int) {
	block = []byte{8 << 4, 1, 2, 3, 4, 5, 6, 7, 8, 8, 0}
	for range n - 1 {
		block = append(block, 0, byte(1+r.IntN(8)), 0)
	}
	return append(block, 5<<4, 'a', 'b', 'c', 'd', 'e'), 8 + 4*n + 5
}
