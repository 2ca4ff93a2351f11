package gzip_test

import (
	"testing"

	"github.com/quiver-gpu/quiver/compress/gzip"
	"github.com/stretchr/testify/require"
)

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"floats", "text", "skewed", "zeros"} {
		data := samples()[name]
		enc, err := gzip.EncodeMember(nil, data, 6)
		require.NoError(b, err)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			dst := make([]byte, len(data))
			for b.Loop() {
				if _, err := gzip.DecodeMembers(dst, enc, int64(len(data))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
