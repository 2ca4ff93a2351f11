// Package batchtest runs batches in tests of the formats.
package batchtest

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/compress"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

// Upload returns a buffer with some bytes, which is released after the test.
func Upload(t testing.TB, dev arrowbuf.Device, data []byte) arrowbuf.Buffer {
	t.Helper()
	buf, err := dev.Alloc(int64(len(data)))
	require.NoError(t, err)
	t.Cleanup(buf.Release)
	_, err = buf.CopyFromHost(data, 0)
	require.NoError(t, err)
	return buf
}

// Download returns the bytes of a buffer.
func Download(t testing.TB, b arrowbuf.Buffer) []byte {
	t.Helper()
	data := make([]byte, b.Len())
	_, err := b.CopyToHost(data, 0)
	require.NoError(t, err)
	return data
}

// filler is what the bytes outside of the outputs have.
const filler = 0xEE

// Run encodes or decodes inputs at odd places of one buffer, and checks that no byte outside of
// the outputs changes.
func Run(t *testing.T, dev arrowbuf.Device, inputs [][]byte, sizes []int, run func(compress.Batch) ([]compress.Result, error)) ([][]byte, []compress.Result) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var b compress.Batch
	var src []byte
	var dst int64
	for i, in := range inputs {
		src = append(src, make([]byte, r.IntN(40))...)
		b.In = append(b.In, compress.Range{Offset: int64(len(src)), Length: int64(len(in))})
		src = append(src, in...)
		dst += r.Int64N(7)
		b.Out = append(b.Out, compress.Range{Offset: dst, Length: int64(sizes[i])})
		dst += int64(sizes[i])
	}
	dst += 5
	b.Src, b.Dst = Upload(t, dev, src), Upload(t, dev, bytes.Repeat([]byte{filler}, int(dst)))
	results, err := run(b)
	require.NoError(t, err)
	require.Len(t, results, len(inputs))
	got := Download(t, b.Dst)
	outputs := make([][]byte, len(inputs))
	at := int64(0)
	for i, out := range b.Out {
		for ; at < out.Offset; at++ {
			require.EqualValues(t, filler, got[at], "byte %d lies outside of all outputs", at)
		}
		outputs[i] = got[out.Offset : out.Offset+results[i].Length]
		at = out.Offset + out.Length
	}
	return outputs, results
}

// Mutate returns a copy of an input with some changed bytes. Parts may be repeated or
// missing, and the end may be cut.
func Mutate(r *rand.Rand, in []byte) []byte {
	in = bytes.Clone(in)
	for range r.IntN(4) {
		if len(in) == 0 {
			break
		}
		at := r.IntN(len(in))
		if r.IntN(2) == 0 {
			at = r.IntN(min(len(in), 64)) // headers are near the start
		}
		if r.IntN(2) == 0 {
			in[at] = byte(r.Uint32())
		} else {
			in[at] ^= 1 << r.IntN(8)
		}
	}
	if r.IntN(4) == 0 {
		at := r.IntN(len(in) + 1)
		end := at + r.IntN(min(len(in)-at, 30)+1)
		if r.IntN(2) == 0 {
			at, end = end, at
		}
		in = append(in[:at:at], in[end:]...)
	}
	if r.IntN(4) == 0 {
		in = in[:r.IntN(len(in)+1)]
	}
	return in
}

// Samples are data of n bytes each: random bytes, few symbols, zeros, numbers, runs, text.
func Samples(r *rand.Rand, n int) [][]byte {
	random, few, skewed, runs := make([]byte, n), make([]byte, n), make([]byte, n), make([]byte, n)
	for i := range n {
		random[i], few[i] = byte(r.Uint32()), byte(r.IntN(4))
		skewed[i] = byte(min(255, r.ExpFloat64()*10))
		if runs[i] = byte(r.Uint32()); i%17 != 0 {
			runs[i] = runs[i-1]
		}
	}
	numbers := make([]float32, n/4+1)
	for i := range numbers {
		numbers[i] = float32(int(r.NormFloat64()*300)) / 100
	}
	floats := unsafe.Slice((*byte)(unsafe.Pointer(&numbers[0])), 4*len(numbers))[:n]
	ids := make([]byte, n+8)
	for i := 0; i < n; i += 8 {
		binary.LittleEndian.PutUint64(ids[i:], uint64(i*3))
	}
	text := bytes.Repeat([]byte("a column of words, "), n/19+1)[:n]
	return [][]byte{random, few, make([]byte, n), skewed, runs, floats, ids[:n], text}
}

// Adversarial are data of n bytes each that are hard for encoders: distributions that need
// the longest codes or all symbols, matches of every length and distance, and periods.
func Adversarial(r *rand.Rand, n int) [][]byte {
	fibonacci, uniform, doubling := make([]byte, n), make([]byte, n), make([]byte, n)
	copies, periods, records, sparse := make([]byte, 0, n+300), make([]byte, 0, n+300), make([]byte, 0, n+300), make([]byte, n)
	symbols := 2 + r.IntN(254)
	counts, limit := []int{1, 1}, 2
	for len(counts) < 30 && limit < n {
		counts = append(counts, counts[len(counts)-1]+counts[len(counts)-2])
		limit += counts[len(counts)-1]
	}
	for i := range n {
		at := r.IntN(limit)
		for k, c := range counts {
			if at -= c; at < 0 {
				fibonacci[i] = byte(k * 7)
				break
			}
		}
		uniform[i] = byte(r.IntN(symbols))
		doubling[i] = byte(bits.LeadingZeros32(r.Uint32()) * 5)
		if r.IntN(3000) == 0 {
			sparse[i] = byte(r.Uint32())
		}
	}
	for len(copies) < n {
		if len(copies) > 0 && r.IntN(3) > 0 {
			distance := 1 + r.IntN(min(len(copies), 1<<r.IntN(18)))
			for range 3 + r.IntN(1<<r.IntN(8)) {
				copies = append(copies, copies[len(copies)-distance])
			}
			continue
		}
		for range 1 + r.IntN(1<<r.IntN(6)) {
			copies = append(copies, byte(r.Uint32()))
		}
	}
	for len(periods) < n {
		unit := make([]byte, 1+r.IntN(70))
		for i := range unit {
			unit[i] = byte(r.Uint32())
		}
		for range 1 + r.IntN(5) {
			periods = append(periods, unit...)
		}
	}
	for len(records) < n {
		records = binary.LittleEndian.AppendUint32(records, uint32(len(records)/12))
		records = append(records, "name"...)
		records = append(records, byte(r.IntN(3)), byte(r.Uint32()), 0, 0)
	}
	return [][]byte{fibonacci, uniform, doubling, copies[:n], periods[:n], records[:n], sparse}
}

// Simulated returns a simulated device, on which host implementations run.
func Simulated(t *testing.T) *cudabuf.Device {
	dev, err := cudatest.Start(t, cudatest.Config{Devices: 1}).Device(0)
	require.NoError(t, err)
	return dev
}
