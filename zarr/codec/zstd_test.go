package codec

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// backends returns the encoders that are available on this machine.
func backends() map[string]*libzstd {
	all := map[string]*libzstd{"Go": nil}
	if lib := openLibzstd(); lib != nil {
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
		for _, z := range []Zstd{{Level: -5}, {Level: 1}, {Level: 1, Checksum: true}, {Level: 3}, {Level: 19}} {
			t.Run(fmt.Sprintf("%s/%d", name, z.Level), func(t *testing.T) {
				encoder, err := z.newEncoder(lib)
				require.NoError(t, err)
				for what, input := range inputs {
					prefix := []byte("before")
					frame, err := encoder.encode(prefix, input)
					require.NoError(t, err, what)
					assert.Equal(t, "before", string(frame[:6]))
					back, err := z.Decode(nil, frame[6:], max(int64(len(input)), 1))
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
		first, second := new(zstdEncoder), new(zstdEncoder)
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
	if runtime.GOOS != "linux" || openLibzstd() == nil {
		t.Skip("this machine has no libzstd")
	}
	assert.Regexp(t, `^libzstd 1\.\d+\.\d+$`, ZstdImplementation())
}

func TestLibzstdErrorsHaveText(t *testing.T) {
	lib := openLibzstd()
	if lib == nil {
		t.Skip("this machine has no libzstd")
	}
	err := lib.check(^uintptr(0)-1, 0, 0) // any error code
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
				frame, err := Zstd{Level: 1}.Encode(nil, input)
				if assert.NoError(t, err) {
					back, err := Zstd{}.Decode(nil, frame, int64(len(input)))
					assert.NoError(t, err)
					assert.Equal(t, string(input), string(back))
				}
				runtime.GC() // frees unused contexts
			}
		})
	}
	group.Wait()
}
