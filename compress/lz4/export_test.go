package lz4

import "testing"

// SetPieces sets the size of pieces, and up to which size an output is one piece.
func SetPieces(t testing.TB, bytes, one int64) {
	piecesBefore, oneBefore := pieceBytes, onePiece
	pieceBytes, onePiece = bytes, one
	t.Cleanup(func() { pieceBytes, onePiece = piecesBefore, oneBefore })
}
