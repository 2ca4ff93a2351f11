package ndview

import (
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
)

// KernelArg names an argument of a kernel that a program writes itself. In the
// kernel's C++ the name is a variable: an element of an array, or the scalar.
// float16 and bfloat16 are floats there, bool is C's; complex numbers have re
// and im, and + - * / among themselves; datetime64 and timedelta64 are counts,
// long long. NAME_t is the variable's type.
type KernelArg struct {
	Name  string
	DType DType
	// Read and Write say what the kernel does with an array, Scalar that the
	// argument is one value. One of them at least must be set.
	Read, Write, Scalar bool
}

var (
	argName = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)
	// ownTypes are how elements lie in memory; others are a long long.
	ownTypes = map[DType]string{
		Bool: "bool", Int8: "signed char", Int16: "short", Int32: "int", Int64: "long long",
		Uint8: "unsigned char", Uint16: "unsigned short", Uint32: "unsigned int", Uint64: "unsigned long long",
		Float16: "quiver_half", BFloat16: "quiver_bfloat", Float32: "float", Float64: "double",
		Complex64: "quiver_complex<float>", Complex128: "quiver_complex<double>",
	}
)

// cType is the C++ type that elements lie in memory as.
func cType(t DType) (string, bool) {
	if t.kind == KindDatetime || t.kind == KindTimedelta {
		return "long long", true
	}
	c, ok := ownTypes[t]
	return c, ok
}

// computed is the C++ type of variables.
func computed(t DType) string {
	if t == Float16 || t == BFloat16 {
		return "float"
	}
	c, _ := cType(t)
	return c
}

// keywords are those of C++17.
var keywords = func() map[string]bool {
	words := map[string]bool{}
	for _, w := range strings.Fields(`alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t class
		compl const const_cast constexpr continue decltype default delete do double dynamic_cast else enum explicit export extern false float
		for friend goto if inline int long mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public
		register reinterpret_cast return short signed sizeof static static_assert static_cast struct switch template this thread_local throw
		true try typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq`) {
		words[w] = true
	}
	return words
}()

func checkArgs(args []KernelArg) error {
	seen := map[string]bool{}
	for i, arg := range args {
		_, known := cType(arg.DType)
		switch {
		case !argName.MatchString(arg.Name) || strings.HasPrefix(arg.Name, "quiver_"):
			return fmt.Errorf("argument %d is named %q: want a name of C that does not begin with quiver_", i, arg.Name)
		case keywords[arg.Name]:
			return fmt.Errorf("argument %d is named %q, which is a word of C++ itself", i, arg.Name)
		case seen[arg.Name]:
			return fmt.Errorf("two arguments are named %q", arg.Name)
		case !known:
			return fmt.Errorf("argument %s: C has no %s: %w", arg.Name, arg.DType, ErrDType)
		case !arg.Read && !arg.Write && !arg.Scalar:
			return fmt.Errorf("argument %s is neither read nor written nor a scalar", arg.Name)
		case arg.Scalar && (arg.Read || arg.Write):
			return fmt.Errorf("argument %s is a scalar and an array", arg.Name)
		}
		seen[arg.Name] = true
	}
	return nil
}

// bare takes the index from elements of arrays that are written as pygpu's
// kernels write them: name[i] is name.
func bare(code string, args []KernelArg) string {
	for _, arg := range args {
		code = regexp.MustCompile(`\b`+arg.Name+`\[i\]`).ReplaceAllString(code, arg.Name)
	}
	return code
}

// ownKernel is the name of the kernels that are compiled from source.
const ownKernel = "quiver_own"

// compiled are the programs of all sources that the process has used, so that
// making the same kernel again compiles and loads nothing.
var compiled sync.Map // source -> *cudabuf.Program

// compileSource makes the image of a source for a GPU; tests replace it, and
// give twins, where no compiler and no GPU is.
var (
	compileSource = compileByNVRTC
	sourceTwins   = func(source string) map[string]cudabuf.HostKernel { return nil }
	sourceCache   nvrtc.Cache
)

func compileByNVRTC(source string, major, minor int) ([]byte, error) {
	supported, err := nvrtc.Architectures()
	if err != nil {
		return nil, err
	}
	arch, err := nvrtc.Arch(major, minor, supported)
	if err != nil {
		return nil, err
	}
	image, err := sourceCache.Compile(nvrtc.Source{Name: "own.cu", Text: source, Arch: arch, Options: []string{"-std=c++17"}})
	if err != nil {
		return nil, err
	}
	return image.Bytes, nil
}

func ownProgram(source string) *cudabuf.Program {
	p, _ := compiled.LoadOrStore(source, &cudabuf.Program{
		ImageFor: func(major, minor int) ([]byte, error) { return compileSource(source, major, minor) },
		Twins:    sourceTwins(source),
	})
	return p.(*cudabuf.Program)
}

// programOfForm spares writing the source again for a form that was there.
func programOfForm(programs *sync.Map, form string, source func() string) *cudabuf.Program {
	if p, ok := programs.Load(form); ok {
		return p.(*cudabuf.Program)
	}
	p := ownProgram(source())
	programs.Store(form, p)
	return p
}

// needsGPU is nil for a device that can run kernels from source.
func needsGPU(dev arrowbuf.Device) (*cudabuf.Device, error) {
	if cuda, ok := dev.(*cudabuf.Device); ok {
		return cuda, nil
	}
	return nil, fmt.Errorf("a kernel from source on %s: it needs a CUDA device and NVRTC: %w", dev, arrowbuf.ErrDevice)
}
