package ndview_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ndview"
)

func TestWidenFromKeepsValuesAtAnyAlignment(t *testing.T) {
	wide := []ndview.DType{ndview.Int64, ndview.Datetime64(ndview.Day, 1), ndview.Timedelta64(ndview.Second, 1)}
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		for i, n := range []int64{1, 2, 31, 127, 128, 129, 1024, 5000} {
			rng := rand.New(rand.NewPCG(4, uint64(n)))
			from := []int32{math.MinInt32, math.MaxInt32, -1, 0, 1}
			for int64(len(from)) < n {
				from = append(from, int32(rng.Uint32()))
			}
			from = from[:n]
			for align := range int64(8) {
				src := upload(t, dev, append(make([]byte, align%4), raw(from...)...))
				want := poisoned(int(8*n) + 32)
				dst := upload(t, dev, want)
				a := at(t, dst, wide[i%len(wide)], 8+align, n)
				require.NoError(t, a.WidenFrom(at(t, src, ndview.Int32, align%4, n)))
				for j, v := range from {
					copy(want[8+align+8*int64(j):], raw(int64(v)))
				}
				requireBytes(t, want, download(t, dst), "n", n, "alignment", align)
			}
		}
	})
}

func TestWidenFromRefuses(t *testing.T) {
	onDevices(t, func(t *testing.T, dev arrowbuf.Device) {
		buf := upload(t, dev, make([]byte, 96))
		long := func(d ndview.DType) *ndview.NDBuffer { return at(t, buf, d, 0, 2, 3) }
		src := fromHost(t, dev, ndview.Int32, count(6), 2, 3)
		turned, err := at(t, buf, ndview.Int64, 0, 3, 2).Transpose()
		own(t, turned, err)
		turnedSrc, err := fromHost(t, dev, ndview.Int32, count(6), 3, 2).Transpose()
		own(t, turnedSrc, err)
		tests := []struct {
			name   string
			a, src *ndview.NDBuffer
			want   error
		}{
			{"uint32", long(ndview.Int64), at(t, buf, ndview.Uint32, 48, 2, 3), ndview.ErrDType},
			{"to uint64", long(ndview.Uint64), src, ndview.ErrDType},
			{"to float64", long(ndview.Float64), src, ndview.ErrDType},
			{"to int32", at(t, buf, ndview.Int32, 0, 2, 3), src, ndview.ErrDType},
			{"another shape", at(t, buf, ndview.Int64, 0, 3, 2), src, ndview.ErrShape},
			{"to other strides", turned, src, ndview.ErrShape},
			{"from other strides", long(ndview.Int64), turnedSrc, ndview.ErrShape},
			{"from elsewhere", long(ndview.Int64), fromHost(t, otherThan(t, dev), ndview.Int32, count(6), 2, 3), arrowbuf.ErrDevice},
		}
		for _, tt := range tests {
			assert.ErrorIs(t, tt.a.WidenFrom(tt.src), tt.want, tt.name)
		}
		assert.Equal(t, make([]byte, 96), download(t, buf), "what failed must not have written")
		none, err := ndview.Empty(dev, ndview.Int64, 0)
		own(t, none, err)
		assert.NoError(t, none.WidenFrom(at(t, buf, ndview.Int32, 0, 0)))
	})
}
