package handle_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

// randomDescriptor returns a valid descriptor.
func randomDescriptor(rng *rand.Rand) handle.Descriptor {
	fill := func(b []byte) {
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
	}
	d := handle.Descriptor{Mechanism: handle.Mechanism(1 + rng.IntN(5)), Sequence: rng.Uint64()}
	d.AllocationSize = rng.Int64()
	d.Offset = rng.Int64N(d.AllocationSize + 1)
	d.Length = rng.Int64N(d.AllocationSize - d.Offset + 1)
	fill(d.Device[:])
	fill(d.Exporter.Machine[:])
	d.Exporter.Namespace, d.Exporter.Start, d.Exporter.PID = rng.Uint64(), rng.Uint64(), rng.Uint32()
	if !d.Mechanism.HasFile() || d.Mechanism == handle.CUDAPool {
		fill(d.Handle[:])
	}
	if d.Mechanism == handle.CUDAPool {
		d.Pool = 1 + rng.Uint64N(math.MaxUint64)
	}
	if rng.IntN(2) == 0 {
		d.Event = new(cudabuf.EventHandle)
		fill(d.Event[:])
	}
	return d
}

func TestDescriptorsRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		d := randomDescriptor(rng)
		b, err := d.MarshalBinary()
		require.NoError(t, err)
		require.LessOrEqual(t, len(b), 224)
		var back handle.Descriptor
		require.NoError(t, back.UnmarshalBinary(b))
		require.Equal(t, d, back)
	}
}

func TestBinaryFormMatchesDocument(t *testing.T) {
	d := handle.Descriptor{Mechanism: handle.CUDAIPC, AllocationSize: 2 << 20, Offset: 0x1122, Length: 5, Sequence: 9}
	d.Device[15], d.Exporter.Machine[0], d.Handle[63] = 0xd, 0xe, 0xf
	d.Exporter.PID, d.Exporter.Namespace, d.Exporter.Start = 7, 4026531836, 99
	d.Event = &cudabuf.EventHandle{0: 0xaa}
	b, err := d.MarshalBinary()
	require.NoError(t, err)
	assert.Len(t, b, 88+64+64)
	assert.Equal(t, []byte{1, 2, 1, 0, 7, 0, 0, 0}, b[:8])
	for at, want := range map[int]uint64{8: 2 << 20, 16: 0x1122, 24: 5, 64: 4026531836, 72: 99, 80: 9} {
		assert.Equal(t, want, binary.LittleEndian.Uint64(b[at:]), "at %d", at)
	}
	for at, want := range map[int]byte{47: 0xd, 48: 0xe, 88 + 63: 0xf, 88 + 64: 0xaa} {
		assert.Equal(t, want, b[at], "at %d", at)
	}
}

func TestDescriptorOfPoolMemory(t *testing.T) {
	d := handle.Descriptor{Mechanism: handle.CUDAPool, AllocationSize: 4096, Offset: 64, Length: 8, Handle: [64]byte{63: 0xf}, Pool: 0x1122}
	b, err := d.MarshalBinary()
	require.NoError(t, err)
	assert.Len(t, b, 88+64+8)
	assert.Equal(t, byte(0xf), b[88+63])
	assert.EqualValues(t, 0x1122, binary.LittleEndian.Uint64(b[88+64:]))
	h, err := d.PoolHandle()
	require.NoError(t, err)
	assert.Equal(t, cudabuf.PoolHandle{Pointer: d.Handle, Region: d.Region()}, h)
	clear(b[88+64:])
	assert.ErrorIs(t, new(handle.Descriptor).UnmarshalBinary(b), cudabuf.ErrMalformedHandle, "pools are numbered from 1")
	_, err = d.MarshalPyArrow()
	assert.ErrorIs(t, err, cudabuf.ErrNotShareable)
	other := handle.Descriptor{Mechanism: handle.CUDAIPC}
	_, err = other.PoolHandle()
	assert.ErrorIs(t, err, cudabuf.ErrNotShareable)
}

func TestUnmarshalRejectsInvalidBytes(t *testing.T) {
	d := randomDescriptor(rand.New(rand.NewPCG(3, 4)))
	d.Mechanism, d.Pool, d.Event = handle.CUDAIPC, 0, nil
	good, err := d.MarshalBinary()
	require.NoError(t, err)
	change := func(at int, with ...byte) []byte {
		b := bytes.Clone(good)
		copy(b[at:], with)
		return b
	}
	huge := bytes.Repeat([]byte{0xff}, 8)
	for name, b := range map[string][]byte{
		"nothing":                      nil,
		"short":                        good[:87],
		"without the handle":           good[:88],
		"a byte short":                 good[:len(good)-1],
		"a byte long":                  append(bytes.Clone(good), 0),
		"version 0":                    change(0, 0),
		"version 2":                    change(0, 2),
		"mechanism 0":                  change(1, 0),
		"mechanism 6":                  change(1, 6),
		"a pool without a number":      change(1, 5),
		"unknown flag":                 change(2, 2),
		"an event that is not there":   change(2, 1),
		"reserved":                     change(3, 1),
		"negative size":                change(8, huge...),
		"negative offset":              change(16, huge...),
		"negative length":              change(24, huge...),
		"length beyond the allocation": change(24, binary.LittleEndian.AppendUint64(nil, math.MaxInt64)...),
	} {
		var back handle.Descriptor
		assert.ErrorIs(t, back.UnmarshalBinary(b), cudabuf.ErrMalformedHandle, name)
		assert.Zero(t, back, name)
	}
}

func TestMarshalRejectsInvalidDescriptors(t *testing.T) {
	for name, d := range map[string]handle.Descriptor{
		"no mechanism":          {Length: 1, AllocationSize: 1},
		"beyond the allocation": {Mechanism: handle.CUDAIPC, AllocationSize: 10, Offset: 5, Length: 6},
		"a handle and a file":   {Mechanism: handle.CUDAFD, AllocationSize: 10, Handle: [64]byte{1}},
		"a pool without number": {Mechanism: handle.CUDAPool, AllocationSize: 10},
		"a pool that is none":   {Mechanism: handle.CUDAIPC, AllocationSize: 10, Pool: 1},
	} {
		_, err := d.MarshalBinary()
		assert.ErrorIs(t, err, cudabuf.ErrMalformedHandle, name)
	}
}

func TestPartKeepsOffset(t *testing.T) {
	d := handle.Descriptor{Mechanism: handle.CUDAIPC, AllocationSize: 4096, Offset: 1000, Length: 2000}
	part, err := d.Part(24, 100)
	require.NoError(t, err)
	assert.Equal(t, cudabuf.Region{AllocationSize: 4096, Offset: 1024, Length: 100}, part.Region())
	_, err = d.Part(1990, 11)
	assert.ErrorIs(t, err, arrowbuf.ErrOutOfRange)
}

func TestPyArrowFormRoundTrips(t *testing.T) {
	d := handle.Descriptor{Mechanism: handle.CUDAIPC, AllocationSize: 2 << 20, Length: 1000, Handle: [64]byte{1, 2, 63: 3}}
	b, err := d.MarshalPyArrow()
	require.NoError(t, err)
	require.Len(t, b, 72)
	assert.EqualValues(t, 1000, binary.NativeEndian.Uint64(b))
	assert.Equal(t, d.Handle[:], b[8:])
	back, err := handle.ParsePyArrow(b)
	require.NoError(t, err)
	assert.Equal(t, handle.Descriptor{Mechanism: handle.CUDAIPC, AllocationSize: 1000, Length: 1000, Handle: d.Handle}, back)

	empty := handle.Descriptor{Mechanism: handle.CUDAIPC, AllocationSize: 5}
	b, err = empty.MarshalPyArrow()
	require.NoError(t, err)
	assert.Equal(t, make([]byte, 8), b)
	back, err = handle.ParsePyArrow(b)
	require.NoError(t, err)
	assert.Zero(t, back.Length)

	part, err := d.Part(8, 1)
	require.NoError(t, err)
	_, err = part.MarshalPyArrow()
	assert.ErrorIs(t, err, cudabuf.ErrNotShareable, "the form has no offset")
	file := handle.Descriptor{Mechanism: handle.CUDAFD, AllocationSize: 5, Length: 5}
	_, err = file.MarshalPyArrow()
	assert.ErrorIs(t, err, cudabuf.ErrNotShareable)
	_, err = handle.ParsePyArrow(make([]byte, 71))
	assert.ErrorIs(t, err, cudabuf.ErrMalformedHandle)
}

func TestSelfRoundTrips(t *testing.T) {
	p, err := handle.Self()
	require.NoError(t, err)
	assert.NotZero(t, p.Machine)
	assert.NotZero(t, p.Namespace)
	assert.NotZero(t, p.Start)
	back, err := handle.ParseProcess(p.Append(nil))
	require.NoError(t, err)
	assert.Equal(t, p, back)
	assert.True(t, p.SameNamespace(back))
	b := p.Append(nil)
	b[39] = 1
	_, err = handle.ParseProcess(b)
	assert.ErrorIs(t, err, cudabuf.ErrMalformedHandle)
	_, err = handle.ParseProcess(b[:39])
	assert.ErrorIs(t, err, cudabuf.ErrMalformedHandle)
}

func FuzzDescriptor(f *testing.F) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 8 {
		d := randomDescriptor(rng)
		b, err := d.MarshalBinary()
		require.NoError(f, err)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var d handle.Descriptor
		if err := d.UnmarshalBinary(b); err != nil {
			assert.ErrorIs(t, err, cudabuf.ErrMalformedHandle)
			return
		}
		again, err := d.MarshalBinary()
		require.NoError(t, err)
		assert.Equal(t, b, again, "each descriptor has one form")
	})
}
