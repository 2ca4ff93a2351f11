package kernel

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/cudabuf/nvrtc"
	"github.com/quiver-gpu/quiver/ndview"
	"github.com/quiver-gpu/quiver/ndview/dtype"
	"github.com/quiver-gpu/quiver/ndview/internal/launch"
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
)

// Arg declares an argument of a kernel. In the kernel's C++ the name is a variable:
// an element of an array, or the scalar. float16 and bfloat16 are float there, bool
// is C's. Complex numbers have the members re and im, and the operators + - * / among
// themselves. datetime64 and timedelta64 are counts of type long long. NAME_t is the
// variable's type.
type Arg struct {
	Name  string
	DType dtype.DType
	// Read and Write say what the kernel does with an array. Scalar says that the
	// argument is one value. At least one must be set, and Scalar only alone.
	Read, Write, Scalar bool
}

// storageTypes are the C++ types of elements in memory. Times, which are not listed,
// are long long.
var storageTypes = map[dtype.DType]string{
	dtype.Bool: "bool", dtype.Int8: "signed char", dtype.Int16: "short", dtype.Int32: "int", dtype.Int64: "long long",
	dtype.Uint8: "unsigned char", dtype.Uint16: "unsigned short", dtype.Uint32: "unsigned int", dtype.Uint64: "unsigned long long",
	dtype.Float16: "quiver_half", dtype.BFloat16: "quiver_bfloat", dtype.Float32: "float", dtype.Float64: "double",
	dtype.Complex64: "quiver_complex<float>", dtype.Complex128: "quiver_complex<double>",
}

// storageType returns the C++ type of elements in memory. ok is false if C++ has none.
func storageType(t dtype.DType) (name string, ok bool) {
	if t.Kind() == dtype.KindDatetime || t.Kind() == dtype.KindTimedelta {
		return "long long", true
	}
	name, ok = storageTypes[t]
	return name, ok
}

// variableType returns the C++ type of an argument's variable.
func variableType(t dtype.DType) string {
	if t == dtype.Float16 || t == dtype.BFloat16 {
		return "float"
	}
	name, _ := storageType(t)
	return name
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z_0-9]*$`)

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

// validateArgs checks names, types and flags.
func validateArgs(args []Arg) error {
	seen := map[string]bool{}
	for i, arg := range args {
		_, known := storageType(arg.DType)
		switch {
		case !identifier.MatchString(arg.Name) || strings.HasPrefix(arg.Name, "quiver_"):
			return fmt.Errorf("argument %d: got name %q, want a C identifier that does not begin with quiver_", i, arg.Name)
		case keywords[arg.Name]:
			return fmt.Errorf("argument %d: got name %q, which is a keyword of C++", i, arg.Name)
		case seen[arg.Name]:
			return fmt.Errorf("two arguments are named %q", arg.Name)
		case !known:
			return fmt.Errorf("argument %s: C++ has no type for %s: %w", arg.Name, arg.DType, dtype.ErrDType)
		case !arg.Read && !arg.Write && !arg.Scalar:
			return fmt.Errorf("argument %s is neither read nor written nor a scalar", arg.Name)
		case arg.Scalar && (arg.Read || arg.Write):
			return fmt.Errorf("argument %s is a scalar and an array", arg.Name)
		}
		seen[arg.Name] = true
	}
	return nil
}

// removeIndices replaces name[i], as pygpu's kernels write elements, by name.
func removeIndices(code string, args []Arg) string {
	for _, arg := range args {
		code = regexp.MustCompile(`\b`+arg.Name+`\[i\]`).ReplaceAllString(code, arg.Name)
	}
	return code
}

// entryPoint is the name of the kernel in each compiled source.
const entryPoint = "quiver_own"

// programs holds one program per source for the process, so that making the same
// kernel again compiles and loads nothing. Keys are strings, values *cudabuf.Program.
var programs sync.Map

// Tests replace compile and hostKernels: the simulated device runs no images.
var (
	compile     = compileWithNVRTC
	hostKernels = func(source string) map[string]cudabuf.HostKernel { return nil }
	imageCache  nvrtc.Cache
)

// compileWithNVRTC compiles a source for a GPU's compute capability.
func compileWithNVRTC(source string, major, minor int) ([]byte, error) {
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
		ImageFor:    func(major, minor int) ([]byte, error) { return compile(source, major, minor) },
		HostKernels: hostKernels(source),
	})
	return p.(*cudabuf.Program)
}

// formCache holds the programs of one kernel by form, so that a source is written
// once per form.
type formCache struct{ byForm sync.Map }

func (c *formCache) program(form string, source func() string) *cudabuf.Program {
	if p, ok := c.byForm.Load(form); ok {
		return p.(*cudabuf.Program)
	}
	p := loadProgram(source())
	c.byForm.Store(form, p)
	return p
}

// cudaDevice returns dev as a CUDA device, or an error wrapping ErrDevice.
func cudaDevice(dev arrowbuf.Device) (*cudabuf.Device, error) {
	if cuda, ok := arrowbuf.As[*cudabuf.Device](dev); ok {
		return cuda, nil
	}
	return nil, fmt.Errorf("a kernel from source on %s: it needs a CUDA device and NVRTC: %w", dev, arrowbuf.ErrDevice)
}

// operands are the values of a kernel's arguments, checked against them.
type operands struct {
	arrays   []*ndview.NDBuffer // one per argument, nil for scalars
	scalars  [][]byte           // one per argument, nil for arrays
	retained []*ndview.NDBuffer // released by release
}

// bind checks values against arguments. The caller must release the result.
func bind(dev *cudabuf.Device, args []Arg, values []any) (*operands, error) {
	if len(values) != len(args) {
		return nil, fmt.Errorf("got %d operands, want %d, one per argument", len(values), len(args))
	}
	o := &operands{arrays: make([]*ndview.NDBuffer, len(args)), scalars: make([][]byte, len(args))}
	for i, arg := range args {
		if err := o.bindArg(dev, i, arg, values[i]); err != nil {
			o.release()
			return nil, fmt.Errorf("argument %s: %w", arg.Name, err)
		}
	}
	return o, nil
}

func (o *operands) bindArg(dev *cudabuf.Device, i int, arg Arg, value any) error {
	a, isArray := value.(*ndview.NDBuffer)
	if arg.Scalar {
		if isArray {
			return fmt.Errorf("got an array, want a scalar: %w", dtype.ErrDType)
		}
		s, err := dtype.ScalarOf(value)
		if err == nil {
			o.scalars[i], err = s.Bytes(arg.DType)
		}
		return err
	}
	if !isArray {
		return fmt.Errorf("got %T, want an array: %w", value, dtype.ErrDType)
	}
	if a == nil {
		return fmt.Errorf("got a nil array: %w", dtype.ErrDType)
	}
	if err := a.TryRetain(); err != nil {
		return err
	}
	o.arrays[i], o.retained = a, append(o.retained, a)
	flags := a.Flags()
	switch {
	case a.DType() != arg.DType:
		return fmt.Errorf("got an array of %s, want %s: %w", a.DType(), arg.DType, dtype.ErrDType)
	case a.Device() != dev:
		return fmt.Errorf("got an array on %s, want one on %s: %w", a.Device(), dev, arrowbuf.ErrDevice)
	case arg.Write && !flags.Writeable:
		return fmt.Errorf("writing to an array of %s %v: %w", a.DType(), a.Shape(), ndview.ErrReadOnly)
	case !flags.Aligned:
		return fmt.Errorf("offset %d and strides %v of the array are not multiples of %d: %w", a.Offset(), a.Strides(), a.DType().Alignment(), ndview.ErrShape)
	}
	return nil
}

func (o *operands) release() {
	for _, a := range o.retained {
		a.Release()
	}
}

// replaceByCopy makes argument i a copy in C order.
func (o *operands) replaceByCopy(i int) error {
	copied, err := o.arrays[i].Copy(ndview.OrderC)
	if err == nil {
		o.arrays[i], o.retained = copied, append(o.retained, copied)
	}
	return err
}

// separate copies arrays so that no write changes an element before it is read. An
// array that shares memory with a written one is copied, unless both have the same
// elements at the same addresses. Written arrays that share memory are an error.
func (o *operands) separate(args []Arg) error {
	for i, out := range o.arrays {
		if out == nil || !args[i].Write {
			continue
		}
		if overlapsItself(out) {
			return fmt.Errorf("argument %s is written, but its elements share memory: %w", args[i].Name, ndview.ErrShape)
		}
		for j, other := range o.arrays {
			if j == i || other == nil || !ndview.MayShareMemory(out, other) {
				continue
			}
			if args[j].Write {
				return fmt.Errorf("arguments %s and %s are written, but share memory: %w", args[i].Name, args[j].Name, ndview.ErrShape)
			}
			if sameLayout(out, other) {
				continue
			}
			if err := o.replaceByCopy(j); err != nil {
				return err
			}
		}
	}
	return nil
}

// overlapsItself reports whether two elements of an array share memory.
func overlapsItself(a *ndview.NDBuffer) bool {
	return layout.Run{Offset: a.Offset(), Size: a.DType().Size(), Shape: a.Shape(), Strides: a.Strides()}.Overlaps()
}

// sameLayout reports whether each element of a lies at the address of the element of b
// with the same index.
func sameLayout(a, b *ndview.NDBuffer) bool {
	return int64(a.Buffer().Address())+a.Offset() == int64(b.Buffer().Address())+b.Offset() &&
		slices.Equal(a.Shape(), b.Shape()) && slices.Equal(a.Strides(), b.Strides())
}

// launchArgs returns the arguments of a launch. offsets, one per array, are bytes from
// the array's element [0, ..., 0].
func (o *operands) launchArgs(args []Arg, offsets []int64) []any {
	launched := make([]any, 0, len(args)+2) // callers append up to 2
	array := 0
	for i, a := range o.arrays {
		if a == nil {
			launched = append(launched, o.scalars[i])
			continue
		}
		buf, at := launch.CUDABuffer(a.Buffer()), a.Offset()+offsets[array]
		array++
		if args[i].Write {
			launched = append(launched, cudabuf.InOut(buf, at))
		} else {
			launched = append(launched, cudabuf.In(buf, at))
		}
	}
	return launched
}

// broadcastShape is the shape to which a kernel's arrays broadcast.
type broadcastShape struct {
	shape   []int64
	strides [][]int64 // per array, for shape
	sizes   []int64   // per array, the bytes of an element
}

// broadcast broadcasts the arrays. Written arrays must have the resulting shape.
func (o *operands) broadcast(args []Arg) (b broadcastShape, err error) {
	var shapes [][]int64
	for _, a := range o.arrays {
		if a != nil {
			shapes = append(shapes, a.Shape())
		}
	}
	if len(shapes) == 0 {
		return b, errors.New("no operand is an array")
	}
	if b.shape, err = layout.Broadcast(shapes...); err != nil {
		return b, err
	}
	for i, a := range o.arrays {
		if a == nil {
			continue
		}
		if args[i].Write && !slices.Equal(a.Shape(), b.shape) {
			return b, fmt.Errorf("argument %s is written: got shape %v, want %v: %w", args[i].Name, a.Shape(), b.shape, ndview.ErrShape)
		}
		strides, err := layout.BroadcastStrides(a.Shape(), a.Strides(), b.shape)
		if err != nil {
			return b, err
		}
		b.strides, b.sizes = append(b.strides, strides), append(b.sizes, a.DType().Size())
	}
	return b, nil
}

// fits32 reports whether 32 bits count all elements and all bytes of each array.
func (b *broadcastShape) fits32() bool {
	for i, strides := range b.strides {
		if !fits32(b.sizes[i], b.shape, strides) {
			return false
		}
	}
	return true
}

func fits32(size int64, shape, strides []int64) bool {
	low, high, ok := layout.ByteBounds(size, 0, shape, strides)
	return ok && layout.Product(shape) <= math.MaxInt32 && high-low <= math.MaxInt32
}

// formKey names everything about a nest of loops on which a source depends: the number
// of loops, the width of indices, and for a single loop which arrays have a stride of 0
// or no gaps.
func formKey(n layout.Nest, sizes []int64, small bool) string {
	form := []byte{byte(len(n.Shape)), 'L'}
	if small {
		form[1] = 'S'
	}
	if len(n.Shape) == 1 {
		for i, size := range sizes {
			switch n.Strides[i][0] {
			case 0:
				form = append(form, '0')
			case size:
				form = append(form, '1')
			default:
				form = append(form, '-')
			}
		}
	}
	return string(form) + "/"
}

// withLoop returns a nest of at least one loop: sources declare arrays of that length,
// and C++ has none of length 0.
func withLoop(n layout.Nest) layout.Nest {
	if len(n.Shape) > 0 {
		return n
	}
	n.Shape = []int64{1}
	for i := range n.Strides {
		n.Strides[i] = []int64{0}
	}
	return n
}
