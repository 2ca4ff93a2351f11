package zstd

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/quiver-gpu/quiver/compress"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// backends returns the encoders that are available on this machine.
func backends() map[string]*libzstd {
	all := map[string]*libzstd{"Go": nil}
	if lib := library(); lib != nil {
		all[lib.version] = lib
	}
	return all
}

func TestZstdEncodersRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	inputs := map[string][]byte{"empty": {}, "one": {7}, "zeros": make([]byte, 1<<20), "random": make([]byte, 300_001), "few": make([]byte, 1<<20)}
	for i := range inputs["random"] {
		inputs["random"][i] = byte(random.Uint32())
	}
	for i := range inputs["few"] {
		inputs["few"][i] = byte(random.Uint32() % 5)
	}
	for name, lib := range backends() {
		for _, z := range []EncodeOptions{{Level: -5}, {Level: 1}, {Level: 1, Checksum: true}, {Level: 3}, {Level: 19}} {
			t.Run(fmt.Sprintf("%s/%d", name, z.Level), func(t *testing.T) {
				encoder, err := z.newEncoder(lib)
				require.NoError(t, err)
				for what, input := range inputs {
					prefix := []byte("before")
					frame, err := encoder.encode(prefix, input)
					require.NoError(t, err, what)
					assert.Equal(t, "before", string(frame[:6]))
					back, err := DecodeFrames(nil, frame[6:], max(int64(len(input)), 1))
					require.NoError(t, err, what)
					assert.Equal(t, len(input), len(back), what)
					assert.Equal(t, string(input), string(back), what)
				}
			})
		}
	}
}

// get returns the encoder that was put last. An unused encoder is kept for idleTimeout.
func TestIdleEncodersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var idle idleEncoders
		state := func() (kept int, expiring bool) {
			idle.mu.Lock()
			defer idle.mu.Unlock()
			return len(idle.list), idle.expiring
		}
		first, second := new(encoder), new(encoder)
		require.Nil(t, idle.get())
		idle.put(first)
		time.Sleep(idleTimeout / 2)
		idle.put(second)
		require.Same(t, second, idle.get())
		idle.put(second)
		time.Sleep(idleTimeout - 1)
		kept, _ := state()
		require.Equal(t, 1, kept, "only the first has expired")
		require.Same(t, second, idle.get())
		time.Sleep(3 * idleTimeout)
		_, expiring := state()
		require.False(t, expiring)
		idle.put(second)
		time.Sleep(2 * idleTimeout)
		kept, expiring = state()
		require.Zero(t, kept)
		require.False(t, expiring)
	})
}

func TestLibzstdIsPreferred(t *testing.T) {
	if runtime.GOOS != "linux" || library() == nil {
		t.Skip("this machine has no libzstd")
	}
	assert.Regexp(t, `^libzstd 1\.\d+\.\d+$`, Implementation())
}

// Rounded floats match in few bytes. Symbols of few bits match everywhere, so that matches
// had better be long.
func TestLevel1TakesShortMatchesWhereTheyGain(t *testing.T) {
	lib := library()
	if lib == nil {
		t.Skip("this machine has no libzstd")
	}
	r := rand.New(rand.NewPCG(1, 2))
	floats, symbols := make([]byte, minSampled), make([]byte, minSampled)
	for i := range len(floats) / 4 {
		curve := 15 + 10*math.Sin(float64(i)/5000) + r.NormFloat64()
		binary.LittleEndian.PutUint32(floats[4*i:], math.Float32bits(float32(math.Round(curve*64)/64)))
	}
	for i := range symbols {
		symbols[i] = byte(r.IntN(8))
	}
	mixed := slices.Clone(floats)
	for i := range len(mixed) / 16 {
		mixed[len(mixed)/2+i] = byte(r.Uint32())
	}
	for _, c := range []struct {
		name string
		src  []byte
		want matching
	}{
		{"floats", floats, shortMatches},
		{"floats around random bytes", mixed, shortMatches},
		{"symbols", symbols, ofLevel},
		{"few floats", floats[:minSampled-1], ofLevel},
	} {
		t.Run(c.name, func(t *testing.T) {
			enc, err := lib.newEncoder(EncodeOptions{Level: 1})
			require.NoError(t, err)
			frame, err := enc.encode(nil, c.src)
			require.NoError(t, err)
			out, err := DecodeFrames(nil, frame, int64(len(c.src)))
			require.NoError(t, err)
			require.Equal(t, c.src, out)
			other := make([]byte, 2*len(c.src))
			n, err := enc.encodeWith(c.want, other, c.src)
			require.NoError(t, err)
			require.Equal(t, other[:n], frame)
			if c.want == shortMatches {
				long, err := enc.encodeWith(ofLevel, other, c.src)
				require.NoError(t, err)
				require.Less(t, len(frame)*100, long*96)
			}
			// A small input afterwards has the parameters of its own size again.
			again, err := enc.encode(nil, c.src[:1000])
			require.NoError(t, err)
			fresh, err := lib.newEncoder(EncodeOptions{Level: 1})
			require.NoError(t, err)
			want, err := fresh.encode(nil, c.src[:1000])
			require.NoError(t, err)
			require.Equal(t, want, again)
		})
	}
}

func TestLibzstdErrorsHaveText(t *testing.T) {
	lib := library()
	if lib == nil {
		t.Skip("this machine has no libzstd")
	}
	err := lib.check(^uintptr(0) - 1) // any error code
	assert.ErrorContains(t, err, "libzstd: ")
}

func TestZstdEncodersAreSafeForConcurrentUse(t *testing.T) {
	input := make([]byte, 1<<18)
	for i := range input {
		input[i] = byte(i * i >> 7)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				frame, err := EncodeFrame(nil, input, EncodeOptions{Level: 1})
				if assert.NoError(t, err) {
					back, err := DecodeFrames(nil, frame, int64(len(input)))
					assert.NoError(t, err)
					assert.Equal(t, string(input), string(back))
				}
				runtime.GC() // frees unused contexts
			}
		})
	}
	group.Wait()
}

// FuzzDecodeFrames compares the library with the Go implementation, which is stricter:
// the library ignores reserved bits.
func FuzzDecodeFrames(f *testing.F) {
	for _, o := range []EncodeOptions{{Level: 1}, {Level: 19, Checksum: true}} {
		enc, err := o.newEncoder(nil)
		require.NoError(f, err)
		for _, src := range [][]byte{{}, []byte("text text text text text"), make([]byte, 5000)} {
			frame, err := enc.encode(nil, src)
			require.NoError(f, err)
			f.Add(frame, uint16(len(src)))
			f.Add(append(frame, frame...), uint16(2*len(src)))
		}
	}
	f.Fuzz(func(t *testing.T, src []byte, limit uint16) {
		want, err := decodeGo(nil, src, int64(limit), int64(limit))
		got := make([]byte, limit)
		lib := library()
		if lib == nil {
			return
		}
		n, ok := lib.decode(got, src)
		if ok && err == nil {
			require.Equal(t, string(want), string(got[:n]))
		}
		got, failed := DecodeFrames(nil, src, int64(limit))
		require.Equal(t, err == nil || ok, failed == nil)
		if err == nil {
			require.Equal(t, string(want), string(got))
		}
		// A range of what decodes is that range, and another never panics.
		half := make([]byte, len(got)/2+1)
		size := max(int64(len(got)), 1)
		if rangeErr := DecodeRange(half, src, size-int64(len(half)), size); failed == nil && len(got) > 0 {
			require.NoError(t, rangeErr)
			require.Equal(t, string(got[len(got)-len(half):]), string(half))
		}
	})
}

func TestOlderFormatsAreErrors(t *testing.T) {
	for _, magic := range []string{"\x22\xb5\x2f\xfd", "\x27\xb5\x2f\xfd"} { // versions 0.2 and 0.7
		_, err := DecodeFrames(nil, []byte(magic+"0123456789"), 100)
		require.ErrorIs(t, err, compress.ErrCorrupt)
		frame, err := EncodeFrame(nil, []byte("text"), EncodeOptions{})
		require.NoError(t, err)
		_, err = DecodeFrames(nil, append(frame, magic+"0123456789"...), 100)
		require.ErrorIs(t, err, compress.ErrCorrupt, "after a frame")
	}
}

func TestDecodeFramesStaysWithinTheLimit(t *testing.T) {
	frame, err := EncodeFrame(nil, make([]byte, 1000), EncodeOptions{})
	require.NoError(t, err)
	memory := make([]byte, 1500)
	for i := range memory {
		memory[i] = 7
	}
	got, err := DecodeFrames(memory, append(frame, frame...), 2000)
	require.NoError(t, err)
	require.Len(t, got, 2000)
	got, err = DecodeFrames(memory[:0], frame, 1000)
	require.NoError(t, err)
	require.Equal(t, make([]byte, 1000), got)
	require.Equal(t, byte(7), memory[1000])
	for _, limit := range []int64{-1, 0, 1, 999} {
		_, err = DecodeFrames(nil, frame, limit)
		require.ErrorIs(t, err, compress.ErrTooLarge, "%d", limit)
	}
	_, err = EncodeFrame(nil, nil, EncodeOptions{Level: 23})
	require.ErrorContains(t, err, "level 23")
}
