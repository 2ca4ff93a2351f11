package ndview_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/internal/ndtest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unpackReference does bit by bit what UnpackBits does.
func unpackReference(dst, bits []byte, bitOffset int64, invert bool) {
	for i := range dst {
		bit := bitOffset + int64(i)
		dst[i] = bits[bit/8] >> (bit % 8) & 1
		if invert {
			dst[i] = 1 - dst[i]
		}
	}
}

// bitmapSize fills the size class of an allocation and the driver's granule, so that
// reads beyond it fault.
const bitmapSize = 2 << 20

// TestUnpackBitsMatchesReferenceAtEveryOffset places the bitmap at the end of an
// allocation, and each destination between poison.
func TestUnpackBitsMatchesReferenceAtEveryOffset(t *testing.T) {
	const slot, maxBits, maxOffset = 256, 200, 64
	rng := rand.New(rand.NewPCG(2, 1))
	bitmap := randomBytes(rng, (maxOffset+maxBits)/8+1)
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		all, err := dev.Alloc(bitmapSize)
		ndtest.Own(t, all, err)
		_, err = all.CopyFromHost(bitmap, bitmapSize-int64(len(bitmap)))
		require.NoError(t, err)
		clean := poisoned((maxBits + 1) * slot)
		out := ndtest.Upload(t, dev, clean)
		step := int64(1)
		if testing.Short() || strings.HasSuffix(t.Name(), "/simulated") {
			// The host implementation ran on the CPU already; here only launches add cost.
			// Quick tests leave out as many alignments.
			step = 11
		}
		for offset := range int64(maxOffset) {
			for align := offset % step; align < 16; align += step {
				want := append([]byte(nil), clean...)
				_, err := out.CopyFromHost(clean, 0)
				require.NoError(t, err)
				for n := range int64(maxBits + 1) {
					size := (offset + n + 7) / 8
					bits, err := all.Slice(bitmapSize-size, size)
					require.NoError(t, err)
					at := n*slot + 16 + align
					a, err := ndview.FromBuffer(out, ndview.Bool, at, []int64{n}, nil)
					require.NoError(t, err)
					invert := (offset+align+n)%2 == 0
					require.NoError(t, a.UnpackBits(bits, offset, invert))
					unpackReference(want[at:at+n], bitmap[int64(len(bitmap))-size:], offset, invert)
					a.Release()
					bits.Release()
				}
				ndtest.RequireBytes(t, want, ndtest.Download(t, out), "offset", offset, "alignment", align)
			}
		}
	})
}

func TestUnpackBitsMatchesReferenceForLargeBitmaps(t *testing.T) {
	tests := []struct{ n, bitOffset, align int64 }{
		{1 << 14, 0, 0},        // exactly one block on a GPU
		{1<<14 + 1, 0, 0},      // one bit more
		{1<<14 + 15, 1, 1},     // 15 bytes before the first 16-byte word
		{2048, 31, 0},          // one warp's tile
		{2048 + 64, 33, 0},     // and two words after it
		{100_003, 5, 3},        // all odd
		{1<<20 + 13, 17, 9},    //
		{3 << 20, 123_457, 15}, // far into the bitmap
	}
	rng := rand.New(rand.NewPCG(2, 2))
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range tests {
			for _, invert := range []bool{false, true} {
				bitmap := randomBytes(rng, int(tt.bitOffset+tt.n+7)/8)
				bits := ndtest.Upload(t, dev, bitmap)
				want := poisoned(int(tt.n) + 64)
				out := ndtest.Upload(t, dev, want)
				a := ndtest.At(t, out, ndview.Uint8, 16+tt.align, tt.n)
				require.NoError(t, a.UnpackBits(bits, tt.bitOffset, invert))
				unpackReference(want[16+tt.align:16+tt.align+tt.n], bitmap, tt.bitOffset, invert)
				ndtest.RequireBytes(t, want, ndtest.Download(t, out), tt, invert)
			}
		}
	})
}

func TestUnpackBitsFillsArraysOfAnyShape(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		bits := ndtest.Upload(t, dev, []byte{0b1010_1100, 0b0000_0001})
		for _, shape := range [][]int64{{}, {1}, {2, 4}, {4, 1, 2}, {2, 0}} {
			a, err := ndview.Empty(dev, ndview.Bool, shape...)
			ndtest.Own(t, a, err)
			require.NoError(t, a.UnpackBits(bits, 2, false))
			got, err := ndview.ToHost[bool](a)
			require.NoError(t, err)
			assert.Equal(t, []bool{true, true, false, true, false, true, true, false}[:a.Size()], got)
		}
	})
}

func TestUnpackBitsRefusesInvalidOperands(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		out := ndtest.Upload(t, dev, poisoned(64))
		bits := ndtest.Upload(t, dev, make([]byte, 2))
		elsewhere := ndtest.Upload(t, ndtest.OtherThan(t, dev), make([]byte, 2))
		vector := ndtest.At(t, out, ndview.Bool, 0, 9)
		gaps, err := ndview.FromBuffer(out, ndview.Bool, 0, []int64{9}, []int64{2})
		ndtest.Own(t, gaps, err)
		tests := []struct {
			name      string
			a         *ndview.NDBuffer
			bits      arrowbuf.Buffer
			bitOffset int64
			want      error
		}{
			{"int8", ndtest.At(t, out, ndview.Int8, 0, 9), bits, 0, ndview.ErrDType},
			{"int32", ndtest.At(t, out, ndview.Int32, 0, 9), bits, 0, ndview.ErrDType},
			{"gaps", gaps, bits, 0, ndview.ErrShape},
			{"a negative offset", vector, bits, -1, arrowbuf.ErrOutOfRange},
			{"one bit beyond the bitmap", vector, bits, 8, arrowbuf.ErrOutOfRange},
			{"an offset beyond the bitmap", vector, bits, 800, arrowbuf.ErrOutOfRange},
			{"an offset that wraps", vector, bits, math.MaxInt64, arrowbuf.ErrOutOfRange},
			{"a bitmap elsewhere", vector, elsewhere, 0, arrowbuf.ErrDevice},
		}
		for _, tt := range tests {
			assert.ErrorIs(t, tt.a.UnpackBits(tt.bits, tt.bitOffset, false), tt.want, tt.name)
		}
		assert.Equal(t, poisoned(64), ndtest.Download(t, out), "a failed call must not write")
		require.NoError(t, vector.UnpackBits(bits, 7, false), "up to the last bit")
		require.NoError(t, ndtest.At(t, out, ndview.Bool, 0, 0).UnpackBits(bits, 99, false), "no bits at all")
	})
}

// FuzzUnpackBits also finds reads beyond the bitmap, which panic on the CPU.
func FuzzUnpackBits(f *testing.F) {
	f.Add(uint16(0), uint16(8), []byte{0x5a}, false)
	f.Add(uint16(3), uint16(13), []byte{0xff, 0x00}, true)
	f.Add(uint16(63), uint16(129), make([]byte, 24), false)
	f.Add(uint16(9), uint16(0), []byte{}, false)
	f.Fuzz(func(t *testing.T, offset, n uint16, data []byte, invert bool) {
		bits := ndtest.Upload(t, arrowbuf.CPU(), data)
		out := ndtest.Upload(t, arrowbuf.CPU(), poisoned(int(n)+2))
		a := ndtest.At(t, out, ndview.Bool, 1, int64(n))
		err := a.UnpackBits(bits, int64(offset), invert)
		want := poisoned(int(n) + 2)
		if n > 0 && int(offset)+int(n) > 8*len(data) {
			require.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
		} else {
			require.NoError(t, err)
			unpackReference(want[1:1+n], data, int64(offset), invert)
		}
		require.Equal(t, want, ndtest.Download(t, out))
	})
}

// packReference does bit by bit what PackBits does.
func packReference(bits, src []byte, bitOffset int64) {
	for i, v := range src {
		bit := bitOffset + int64(i)
		bits[bit/8] &^= 1 << (bit % 8)
		if v != 0 {
			bits[bit/8] |= 1 << (bit % 8)
		}
	}
}

func TestPackBitsMatchesReferenceAtEveryOffset(t *testing.T) {
	const slot, maxBits = 64, 200
	rng := rand.New(rand.NewPCG(2, 3))
	values := make([]byte, 16+maxBits)
	for i := range values {
		values[i] = byte(rng.IntN(2) * (1 + rng.IntN(2)*rng.IntN(255))) // half are 0, a quarter 1
	}
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		src := ndtest.Upload(t, dev, values)
		clean := randomBytes(rng, (maxBits+1)*slot)
		out := ndtest.Upload(t, dev, clean)
		step := int64(1)
		if testing.Short() || strings.HasSuffix(t.Name(), "/simulated") {
			step = 11
		}
		for offset := range int64(40) {
			for align := offset % step; align < 16; align += step {
				want := append([]byte(nil), clean...)
				_, err := out.CopyFromHost(clean, 0)
				require.NoError(t, err)
				for n := range int64(maxBits + 1) {
					a, err := ndview.FromBuffer(src, ndview.Uint8, align, []int64{n}, nil)
					require.NoError(t, err)
					bits, err := out.Slice(n*slot+align%4, (offset+n+7)/8)
					require.NoError(t, err)
					require.NoError(t, a.PackBits(bits, offset))
					packReference(want[n*slot+align%4:], values[align:align+n], offset)
					bits.Release()
					a.Release()
				}
				ndtest.RequireBytes(t, want, ndtest.Download(t, out), "offset", offset, "alignment", align)
			}
		}
	})
}

func TestPackBitsInvertsUnpackBits(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 4))
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		for _, tt := range []struct{ n, from, to, align int64 }{
			{1 << 14, 0, 0, 0}, {4096 + 48, 0, 0, 0}, {4096 + 47, 0, 1, 1}, {100_003, 5, 3, 7}, {3<<20 + 17, 123_457, 29, 15},
		} {
			bitmap := randomBytes(rng, int(tt.from+tt.n+7)/8)
			out := ndtest.Upload(t, dev, poisoned(int(tt.align+tt.n)))
			a := ndtest.At(t, out, ndview.Bool, tt.align, tt.n)
			require.NoError(t, a.UnpackBits(ndtest.Upload(t, dev, bitmap), tt.from, false))
			want := randomBytes(rng, int(tt.to+tt.n+7)/8+4)
			bits := ndtest.Upload(t, dev, want)
			require.NoError(t, a.PackBits(bits, tt.to))
			packReference(want, ndtest.Elements(t, a), tt.to)
			ndtest.RequireBytes(t, want, ndtest.Download(t, bits), tt)
		}
	})
}

func TestPackBitsRefusesInvalidOperands(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		bits := ndtest.Upload(t, dev, make([]byte, 2))
		a := ndtest.FromHost(t, dev, ndview.Bool, make([]bool, 16), 16)
		assert.ErrorIs(t, a.PackBits(bits, 1), arrowbuf.ErrOutOfRange)
		assert.ErrorIs(t, a.PackBits(bits, -1), arrowbuf.ErrOutOfRange)
		assert.ErrorIs(t, a.PackBits(ndtest.Upload(t, ndtest.OtherThan(t, dev), make([]byte, 2)), 0), arrowbuf.ErrDevice)
		assert.ErrorIs(t, ndtest.FromHost(t, dev, ndview.Int16, make([]int16, 4), 4).PackBits(bits, 0), ndview.ErrDType)
		stepped, err := ndview.FromBuffer(a.Buffer(), ndview.Bool, 0, []int64{8}, []int64{2})
		ndtest.Own(t, stepped, err)
		assert.ErrorIs(t, stepped.PackBits(bits, 0), ndview.ErrShape)
		none, err := a.Slice(0, 3, 3)
		ndtest.Own(t, none, err)
		assert.NoError(t, none.PackBits(ndtest.Upload(t, dev, nil), 1<<40), "nothing is written for no elements")
	})
}

func TestUnpackBitsOfReleasedBitmapReturnsError(t *testing.T) {
	cudatest.ForEachArrowDevice(t, func(t *testing.T, dev arrowbuf.Device) {
		a, err := ndview.Empty(dev, ndview.Bool, 16)
		ndtest.Own(t, a, err)
		bits, err := dev.Alloc(2)
		require.NoError(t, err)
		bits.Release()
		assert.ErrorIs(t, a.UnpackBits(bits, 0, false), arrowbuf.ErrReleased)
	})
}
