package gzip

import (
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// checkStream compares the decoding of a deflate stream with that of compress/flate.
func checkStream(t *testing.T, stream []byte, limit int) {
	t.Helper()
	want, failed := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(stream)), int64(limit)+1))
	for _, room := range []int{limit, min(limit, 10)} {
		f := &inflater{limit: int64(limit), dst: make([]byte, room)}
		n, got, err := f.stream(stream)
		switch {
		case failed == nil && len(want) <= limit:
			require.NoError(t, err)
			require.True(t, bytes.Equal(want, got))
			require.LessOrEqual(t, n, len(stream))
		default:
			require.Error(t, err, "compress/flate: %v", failed)
		}
	}
}

func TestDamagedStreamsAreErrorsAsInTheStandardLibrary(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	rounds := 20_000
	if testing.Short() {
		rounds = 300
	}
	for _, level := range []int{flate.HuffmanOnly, 0, 1, 6} {
		data := make([]byte, 700)
		for i := range data {
			data[i] = byte(random.IntN(4 + i/10))
		}
		var out bytes.Buffer
		w, err := flate.NewWriter(&out, level)
		require.NoError(t, err)
		_, err = w.Write(data)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		for range rounds {
			bad := bytes.Clone(out.Bytes())
			for range random.IntN(4) {
				bad[random.IntN(len(bad))] ^= 1 << random.IntN(8)
			}
			checkStream(t, bad[:len(bad)-random.IntN(2)*random.IntN(len(bad))], 2000)
		}
	}
}

func TestStreamGrowsItsOutputUpToTheLimit(t *testing.T) {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, 9)
	require.NoError(t, err)
	_, err = w.Write(make([]byte, 5000))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	f := &inflater{limit: 4999}
	_, _, err = f.stream(out.Bytes())
	require.ErrorContains(t, err, "more than 4999 bytes")
	require.False(t, errors.Is(err, errFull))
}

func FuzzStream(f *testing.F) {
	f.Add([]byte{0x4b, 0x4c, 0x4a, 0x4e, 0x49, 0x4d, 0x4b, 0xcf, 0xc8, 0xcc, 0xca, 0x06, 0x00}, uint16(300))
	f.Add([]byte{0x05, 0xc0, 0x81, 0x08, 0x00, 0x00, 0x00, 0x00, 0x20, 0x7f, 0xeb, 0x0b, 0x00, 0x00}, uint16(10))
	f.Fuzz(func(t *testing.T, stream []byte, limit uint16) { checkStream(t, stream, int(limit)) })
}
