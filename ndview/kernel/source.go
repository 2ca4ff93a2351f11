package kernel

import (
	"encoding/binary"
	"fmt"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// userText puts the caller's C++ on lines of its own: it may end with a comment and
// contain directives. The compiler's errors count its lines from 1, in a file of the
// given name.
func userText(file, text string) string {
	return fmt.Sprintf("\n#line 1 \"%s\"\n%s\n#line 1 \"quiver\"\n", file, text)
}

// appendWords appends values to the bytes of a C struct of long longs.
func appendWords(raw []byte, values ...int64) []byte {
	for _, v := range values {
		raw = binary.NativeEndian.AppendUint64(raw, uint64(v))
	}
	return raw
}

// appendNest appends the extents of loops, then each array's strides.
func appendNest(raw []byte, n layout.Nest) []byte {
	raw = appendWords(raw, n.Shape...)
	for _, strides := range n.Strides {
		raw = appendWords(raw, strides...)
	}
	return raw
}

// prelude defines element types that CUDA C++ lacks.
const prelude = `
#ifndef QUIVER_TYPES
#define QUIVER_TYPES
struct quiver_half {
	unsigned short bits;
	__device__ operator float() const { float f; asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(bits)); return f; }
	// The half leaves the assembly as 32 bits: stored byte by byte, as in packed records,
	// a 16-bit register had wrong low bits with NVRTC 13.0 (0x4404 for 4 on an H200).
	__device__ void operator=(float f) {
		unsigned wide;
		asm("{ .reg .b16 half; cvt.rn.f16.f32 half, %1; cvt.u32.u16 %0, half; }" : "=r"(wide) : "f"(f));
		bits = (unsigned short)wide;
	}
};
struct quiver_bfloat {
	unsigned short bits;
	__device__ operator float() const { return __uint_as_float((unsigned)bits << 16); }
	__device__ void operator=(float f) {
		unsigned u = __float_as_uint(f);
		bits = f != f ? u >> 16 | 0x40 : (u + 0x7fff + (u >> 16 & 1)) >> 16;
	}
};
template <class T> struct quiver_complex { T re, im; };
template <class T> __device__ quiver_complex<T> operator+(quiver_complex<T> a, quiver_complex<T> b) { return {a.re + b.re, a.im + b.im}; }
template <class T> __device__ quiver_complex<T> operator-(quiver_complex<T> a, quiver_complex<T> b) { return {a.re - b.re, a.im - b.im}; }
template <class T> __device__ quiver_complex<T> operator*(quiver_complex<T> a, quiver_complex<T> b) {
	return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
template <class T> __device__ quiver_complex<T> operator/(quiver_complex<T> a, quiver_complex<T> b) {
	T size = b.re * b.re + b.im * b.im;
	return {(a.re * b.re + a.im * b.im) / size, (a.im * b.re - a.re * b.im) / size};
}
template <class T> __device__ bool operator==(quiver_complex<T> a, quiver_complex<T> b) { return a.re == b.re && a.im == b.im; }
template <class T> __device__ bool operator!=(quiver_complex<T> a, quiver_complex<T> b) { return !(a == b); }
#endif
`

// writeIndexTypes defines the types that count elements and bytes.
func writeIndexTypes(s *strings.Builder, small bool) {
	if small {
		s.WriteString("typedef unsigned int quiver_index;\ntypedef int quiver_bytes;\n")
		return
	}
	s.WriteString("typedef unsigned long long quiver_index;\ntypedef long long quiver_bytes;\n")
}

// parameterList returns the C++ parameters of a kernel for its arguments.
func parameterList(vars []variable) string {
	var s strings.Builder
	for _, arg := range vars {
		c := arg.stored
		switch {
		case arg.Scalar:
			fmt.Fprintf(&s, "%s quiver_p_%s, ", c, arg.Name)
		case arg.Write:
			fmt.Fprintf(&s, "%s *quiver_p_%s, ", c, arg.Name)
		default:
			fmt.Fprintf(&s, "const %s *quiver_p_%s, ", c, arg.Name)
		}
	}
	return s.String()
}

// writeVariableTypes declares NAME_t for each argument.
func writeVariableTypes(s *strings.Builder, vars []variable) {
	for _, arg := range vars {
		fmt.Fprintf(s, "\ttypedef %s %s_t;\n", arg.local, arg.Name)
	}
}

// writeOffsets computes quiver_d: per array, the bytes from its first element to the
// element of a number. It divides the number into the indices of the loops. The stride
// of a single loop is a constant in the source if it is 0 or the size of an element, so
// that the compiler knows which accesses are contiguous.
func writeOffsets(s *strings.Builder, number, extent, stride string, nest layout.Nest, sizes []int64) {
	fmt.Fprintf(s, "\t\tquiver_bytes quiver_d[%d] = {};\n", len(sizes))
	if len(nest.Shape) == 1 {
		for i, size := range sizes {
			switch nest.Strides[i][0] {
			case 0:
			case size:
				fmt.Fprintf(s, "\t\tquiver_d[%d] = (quiver_bytes)%s * %d;\n", i, number, size)
			default:
				fmt.Fprintf(s, "\t\tquiver_d[%d] = (quiver_bytes)%s * (quiver_bytes)%s[%d][0];\n", i, number, stride, i)
			}
		}
		return
	}
	fmt.Fprintf(s, `		quiver_index quiver_rest = %s;
		#pragma unroll
		for (int quiver_l = %d; quiver_l >= 0; quiver_l--) {
			quiver_index quiver_extent = %s[quiver_l], quiver_turn = quiver_rest;
			if (quiver_l > 0) { quiver_rest = quiver_turn / quiver_extent; quiver_turn -= quiver_rest * quiver_extent; }
			#pragma unroll
			for (int quiver_a = 0; quiver_a < %d; quiver_a++) quiver_d[quiver_a] += (quiver_bytes)quiver_turn * (quiver_bytes)%s[quiver_a][quiver_l];
		}
`, number, len(nest.Shape)-1, extent, len(sizes), stride)
}

// writeLoads declares and reads the arguments' variables.
func writeLoads(s *strings.Builder, vars []variable) {
	array := 0
	for _, arg := range vars {
		c, name := arg.stored, arg.Name
		if arg.Scalar {
			fmt.Fprintf(s, "\t\tconst %s_t %s = quiver_p_%s;\n", name, name, name)
			continue
		}
		if arg.Write {
			fmt.Fprintf(s, "\t\t%s *quiver_at_%s = (%s *)((char *)quiver_p_%s + quiver_d[%d]);\n", c, name, c, name, array)
		} else {
			fmt.Fprintf(s, "\t\tconst %s *quiver_at_%s = (const %s *)((const char *)quiver_p_%s + quiver_d[%d]);\n", c, name, c, name, array)
		}
		array++
		switch {
		case !arg.Read:
			fmt.Fprintf(s, "\t\t%s_t %s = %s_t();\n", name, name, name)
		case arg.Write:
			fmt.Fprintf(s, "\t\t%s_t %s = *quiver_at_%s;\n", name, name, name)
		default:
			fmt.Fprintf(s, "\t\tconst %s_t %s = *quiver_at_%s;\n", name, name, name)
		}
	}
}

// entryPoint is the name of the kernel in each compiled source.
const entryPoint = "quiver_own"

// programs holds one program per source for the process, so that making the same
// kernel again compiles and loads nothing. Keys are strings, values *cudabuf.Program.
var programs sync.Map

var imageCache nvrtc.Cache

// compileSource compiles a source for a GPU's compute capability.
func compileSource(source string, major, minor int) ([]byte, error) {
	supported, err := nvrtc.Architectures()
	if err != nil {
		return nil, err
	}
	arch, err := nvrtc.Arch(major, minor, supported)
	if err != nil {
		return nil, err
	}
	image, err := imageCache.Compile(nvrtc.Source{Name: "own.cu", Text: source, Arch: arch, Options: []string{"-std=c++17"}})
	if err != nil {
		return nil, err
	}
	return image.Bytes, nil
}

// loadProgram returns the process's program of a source.
func loadProgram(source string) *cudabuf.Program {
	p, _ := programs.LoadOrStore(source, &cudabuf.Program{
		ImageFor: func(major, minor int) ([]byte, error) { return compileSource(source, major, minor) },
	})
	return p.(*cudabuf.Program)
}

// formCache holds the programs of one kernel by form, so that a source is written
// once per form.
type formCache struct{ byForm sync.Map }

// program returns the program of a form. A device that runs host kernels gets those of
// this kernel: two kernels of one source may have different host functions.
func (c *formCache) program(dev *cudabuf.Device, form string, source func() string, hosts func() map[string]cudabuf.HostKernel) *cudabuf.Program {
	if p, ok := c.byForm.Load(form); ok {
		return p.(*cudabuf.Program)
	}
	var p *cudabuf.Program
	if dev.RunsHostKernels() {
		p = &cudabuf.Program{Image: []byte("host kernels"), HostKernels: hosts()}
	} else {
		p = loadProgram(source())
	}
	first, _ := c.byForm.LoadOrStore(form, p)
	return first.(*cudabuf.Program)
}

// checkDevice returns an error wrapping arrowbuf.ErrDevice for a device that can run
// neither compiled kernels nor, if there is one, the host function.
func checkDevice(dev arrowbuf.Device, hasHost bool) error {
	if isNilDevice(dev) {
		return fmt.Errorf("got a nil device: %w", arrowbuf.ErrDevice)
	}
	cuda, ok := arrowbuf.As[*cudabuf.Device](dev)
	if hasHost || ok && !cuda.RunsHostKernels() {
		return nil
	}
	return fmt.Errorf("%s runs no compiled kernels, and Host is nil: %w", dev, arrowbuf.ErrDevice)
}

// isNilDevice reports whether dev is nil, or a nil *cudabuf.Device.
func isNilDevice(dev arrowbuf.Device) bool {
	cuda, ok := arrowbuf.As[*cudabuf.Device](dev)
	return dev == nil || ok && cuda == nil
}
