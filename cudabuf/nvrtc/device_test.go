package nvrtc

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
)

func floats(values ...float32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func TestWhatIsCompiledRuns(t *testing.T) {
	useReal(t)
	archs, err := Architectures()
	require.NoError(t, err)
	cache := quiet(t)
	cudatest.ForEachDevice(t, func(t *testing.T, dev *cudabuf.Device) {
		major, minor := dev.ComputeCapability()
		code, err := Arch(major, minor, archs)
		require.NoError(t, err)
		for _, arch := range []string{code, fmt.Sprintf("compute_%d", archs[0])} {
			for range 2 { // compiled, and from the cache
				s := Source{Text: scale, Arch: arch, Options: []string{"-DFACTOR=3"}, Names: []string{"scale<float>"}}
				image, err := cache.Compile(s)
				require.NoError(t, err)
				name := image.Names["scale<float>"]
				m, err := dev.LoadModule(image.Bytes, map[string]cudabuf.HostKernel{name: func(l *cudabuf.HostLaunch) {
					values := cudabuf.Elements[float32](l, l.Pointer(0), int64(l.Int32(1)))
					for i := range values {
						values[i] *= 3
					}
				}})
				require.NoError(t, err)
				k, err := m.Kernel(name)
				require.NoError(t, err)
				b, err := dev.FromHost(floats(1, -2, 3.5, 9))
				require.NoError(t, err)
				require.NoError(t, k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, int32(3)))
				got, err := b.Bytes()
				require.NoError(t, err)
				assert.Equal(t, floats(3, -6, 10.5, 9), got)
				b.Release()
				require.NoError(t, m.Close())
			}
		}
	})
}
