package nvrtc

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/ebitengine/purego"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/cudatest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const scale = `template <class T> __global__ void scale(T *x, int n) {
	for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= FACTOR;
}`

func TestCompilePassesSourceToNVRTC(t *testing.T) {
	path := useFake(t)
	image, err := Compile(Source{
		Name:    "a.cu",
		Text:    "warns",
		Arch:    "compute_90",
		Options: []string{"-DN=2", "-std=c++20"},
		Headers: map[string]string{"b.h": "second", "a.h": "first"},
		Names:   []string{"k<float>", "&v"},
	})
	require.NoError(t, err)
	assert.Equal(t, `name a.cu
source warns
header a.h
is first
header b.h
is second
expression k<float>
expression &v
option -DN=2
option -std=c++20
option --gpu-architecture=compute_90
option --no-source-include
`, string(image.Bytes), "PTX has no zero byte at its end")
	assert.Equal(t, "a warning\n", image.Log)
	assert.Equal(t, map[string]string{"k<float>": "_Zk<float>", "&v": "_Z&v"}, image.Names)

	image, err = Compile(Source{Text: "x", Arch: "sm_90"})
	require.NoError(t, err)
	assert.Equal(t, "\x7fB\x00\nname kernel.cu\nsource x\noption --gpu-architecture=sm_90\noption --no-source-include\n",
		string(image.Bytes), "a cubin may have zero bytes")
	assert.Empty(t, image.Log)
	assert.Empty(t, image.Names)

	for _, text := range []string{"x", "no program", "does not compile"} {
		_, _ = Compile(Source{Text: text, Arch: "sm_90", Names: []string{"no::such"}})
	}
	library, err := purego.Dlopen(path, purego.RTLD_NOW)
	require.NoError(t, err)
	live, err := purego.Dlsym(library, "fake_live")
	require.NoError(t, err)
	assert.Zero(t, **(**int32)(unsafe.Pointer(&live)), "programs that were not destroyed")
}

func TestArchSelectsMachineCodeOrPTX(t *testing.T) {
	useReal(t)
	s := Source{Text: scale, Options: []string{"-DFACTOR=3"}, Names: []string{"scale<float>", "scale<long long>"}}
	s.Arch = "compute_90"
	image, err := Compile(s)
	require.NoError(t, err)
	assert.True(t, isPTX(string(image.Bytes)))
	assert.Contains(t, string(image.Bytes), ".target sm_90")
	assert.Equal(t, map[string]string{"scale<float>": "_Z5scaleIfEvPT_i", "scale<long long>": "_Z5scaleIxEvPT_i"}, image.Names)
	assert.Contains(t, string(image.Bytes), ".entry _Z5scaleIxEvPT_i(")

	s.Arch = "sm_90"
	image, err = Compile(s)
	require.NoError(t, err)
	assert.Equal(t, "\x7fELF", string(image.Bytes[:4]))
	assert.Contains(t, string(image.Bytes), "_Z5scaleIfEvPT_i")
}

func TestErrorHoldsCodeAndLog(t *testing.T) {
	forEachLibrary(t, func(t *testing.T) {
		for _, tt := range []struct {
			source Source
			call   string
			code   Result
			log    string
		}{
			{Source{Name: "my.cu", Text: "does not compile"}, "nvrtcCompileProgram", Compilation, "compile"},
			{Source{Name: "my.cu", Options: []string{"--wrong"}}, "nvrtcCompileProgram", InvalidOption, "unrecognized option"},
		} {
			tt.source.Arch = "sm_90"
			_, err := Compile(tt.source)
			var failed *Error
			require.ErrorAs(t, err, &failed)
			assert.Equal(t, tt.call, failed.Call)
			assert.Equal(t, tt.code, failed.Code)
			assert.Equal(t, "my.cu", failed.Source)
			assert.Contains(t, failed.Log, tt.log)
			assert.NotContains(t, failed.Log, "\x00")
			assert.ErrorContains(t, err, tt.call+": my.cu for sm_90: "+tt.code.String()+"\n"+strings.TrimRight(failed.Log, "\n"))
		}

		_, err := Compile(Source{Arch: "sm_90", Names: []string{"no::such"}})
		var failed *Error
		require.ErrorAs(t, err, &failed)
		assert.ErrorContains(t, err, "no::such")
		_, err = Compile(Source{Arch: "sm_90", Options: []string{"-dlto"}})
		assert.ErrorIs(t, err, errSource)
	})
}

func TestErrorNamesFailedCall(t *testing.T) {
	useFake(t)
	for _, tt := range []struct {
		source Source
		want   string
	}{
		{Source{Text: "no program"}, "nvrtcCreateProgram: kernel.cu for sm_90: NVRTC_ERROR_PROGRAM_CREATION_FAILURE (2)"},
		{Source{Names: []string{""}}, `name expression "": nvrtcAddNameExpression: kernel.cu for sm_90: NVRTC_ERROR_INVALID_INPUT (3)`},
		{Source{Names: []string{"no::such"}}, `name expression "no::such": nvrtcGetLoweredName: kernel.cu for sm_90: NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID (10)`},
	} {
		tt.source.Arch = "sm_90"
		_, err := Compile(tt.source)
		assert.EqualError(t, err, tt.want)
	}
}

func TestHeadersAreFoundByIncludeName(t *testing.T) {
	useReal(t)
	image, err := Compile(Source{
		Text:    "#include <a/b.h>\n" + `extern "C" __global__ void k(int *p) { *p = VALUE; }`,
		Headers: map[string]string{"a/b.h": `#include "c.h"`, "c.h": "#define VALUE 1234567"},
		Arch:    "compute_90",
	})
	require.NoError(t, err)
	assert.Contains(t, string(image.Bytes), "1234567")
	_, err = Compile(Source{Text: `#include "source.go"`, Arch: "compute_90"})
	assert.ErrorContains(t, err, "source.go", "the working directory is not searched")
}

func TestCompileConcurrently(t *testing.T) {
	forEachLibrary(t, func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				name := fmt.Sprintf("k%d", i)
				image, err := Compile(Source{Text: `extern "C" __global__ void ` + name + `() {}`, Arch: "compute_90"})
				if assert.NoError(t, err) {
					assert.Contains(t, string(image.Bytes), name)
				}
			})
		}
		wg.Wait()
	})
}

func TestVersionAndArchitectures(t *testing.T) {
	forEachLibrary(t, func(t *testing.T) {
		major, minor, err := Version()
		require.NoError(t, err)
		assert.GreaterOrEqual(t, major*100+minor, 1104)
		archs, err := Architectures()
		require.NoError(t, err)
		assert.IsIncreasing(t, archs)
		assert.Contains(t, archs, 90)
		arch, err := Arch(99, 0, archs)
		require.NoError(t, err)
		_, err = Compile(Source{Arch: arch})
		assert.NoError(t, err)
	})
}

func float32Bytes(values ...float32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

func TestCompiledKernelRuns(t *testing.T) {
	useReal(t)
	archs, err := Architectures()
	require.NoError(t, err)
	cache := newCache(t)
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
				b, err := dev.FromHost(float32Bytes(1, -2, 3.5, 9))
				require.NoError(t, err)
				require.NoError(t, k.Launch(cudabuf.Dim3{X: 1}, cudabuf.Dim3{X: 32}, 0, b, int32(3)))
				got, err := b.Bytes()
				require.NoError(t, err)
				assert.Equal(t, float32Bytes(3, -6, 10.5, 9), got)
				b.Release()
				require.NoError(t, m.Close())
			}
		}
	})
}
