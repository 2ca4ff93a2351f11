package ndview

import (
	"encoding/binary"
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
	"github.com/quiver-gpu/quiver/ndview/internal/layout"
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
	if t.Kind() == KindDatetime || t.Kind() == KindTimedelta {
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

// operands are what a kernel is called with, checked against its arguments.
type operands struct {
	arrays  []*NDBuffer // by argument, nil for scalars
	scalars [][]byte
	held    []*NDBuffer
}

// bind checks operands. The caller releases the result.
func bind(dev *cudabuf.Device, args []KernelArg, given []any) (*operands, error) {
	if len(given) != len(args) {
		return nil, fmt.Errorf("%d operands for the %d arguments of a kernel", len(given), len(args))
	}
	o := &operands{arrays: make([]*NDBuffer, len(args)), scalars: make([][]byte, len(args))}
	for i, arg := range args {
		if err := o.bindOne(dev, i, arg, given[i]); err != nil {
			o.release()
			return nil, fmt.Errorf("argument %s: %w", arg.Name, err)
		}
	}
	return o, nil
}

func (o *operands) bindOne(dev *cudabuf.Device, i int, arg KernelArg, given any) error {
	a, isArray := given.(*NDBuffer)
	if arg.Scalar {
		if isArray {
			return fmt.Errorf("an array for a scalar: %w", ErrDType)
		}
		s, err := ScalarOf(given)
		if err == nil {
			o.scalars[i], err = s.Bytes(arg.DType)
		}
		return err
	}
	if !isArray || a == nil {
		return fmt.Errorf("%T for an array: %w", given, ErrDType)
	}
	if err := a.hold(); err != nil {
		return err
	}
	o.arrays[i], o.held = a, append(o.held, a)
	switch {
	case a.dtype != arg.DType:
		return fmt.Errorf("an array of %s for one of %s: %w", a.dtype, arg.DType, ErrDType)
	case a.Device() != dev:
		return fmt.Errorf("an array on %s for a kernel on %s: %w", a.Device(), dev, arrowbuf.ErrDevice)
	case arg.Write && a.checkWriteable() != nil:
		return a.checkWriteable()
	case !a.isAligned():
		return fmt.Errorf("offset %d and strides %v of the array are not multiples of %d: %w", a.offset, a.strides, a.dtype.Alignment(), ErrShape)
	}
	return nil
}

func (o *operands) release() {
	for _, a := range o.held {
		a.Release()
	}
}

// separate makes what is read unaffected by what is written: an array that
// shares memory with one that is written, and does not lie exactly as it does,
// is copied. Arrays that are written share none, nor do their own elements.
func (o *operands) separate(args []KernelArg) error {
	for i, out := range o.arrays {
		if out == nil || !args[i].Write {
			continue
		}
		if out.run().Overlaps() {
			return fmt.Errorf("argument %s is written, and its elements share memory: %w", args[i].Name, ErrShape)
		}
		for j, other := range o.arrays {
			if j == i || other == nil || !MayShareMemory(out, other) {
				continue
			}
			if args[j].Write {
				return fmt.Errorf("arguments %s and %s are written, and share memory: %w", args[i].Name, args[j].Name, ErrShape)
			}
			if out.liesAs(other) {
				continue
			}
			copied, err := other.inCOrder()
			if err != nil {
				return err
			}
			o.arrays[j], o.held = copied, append(o.held, copied)
		}
	}
	return nil
}

// liesAs tells whether the elements of two arrays are the same.
func (a *NDBuffer) liesAs(b *NDBuffer) bool {
	return int64(a.buf.Address())+a.offset == int64(b.buf.Address())+b.offset &&
		slices.Equal(a.shape, b.shape) && slices.Equal(a.strides, b.strides)
}

// pointers are the arguments of a launch, of arrays that begin at offsets from
// where they do, and of scalars.
func (o *operands) pointers(args []KernelArg, offsets []int64) []any {
	var launched []any
	next := 0
	for i, a := range o.arrays {
		switch {
		case a == nil:
			launched = append(launched, o.scalars[i])
			continue
		case args[i].Write:
			launched = append(launched, cudabuf.InOut(a.buf.(*cudabuf.Buffer), a.offset+offsets[next]))
		default:
			launched = append(launched, cudabuf.In(a.buf.(*cudabuf.Buffer), a.offset+offsets[next]))
		}
		next++
	}
	return launched
}

// fits32 tells whether 32 bits count all elements, and reach all their bytes.
func fits32(size int64, shape, strides []int64) bool {
	low, high, ok := layout.Extent(size, 0, shape, strides)
	return ok && product(shape) <= math.MaxInt32 && high-low <= math.MaxInt32
}

// loops appends extents, and the strides of each array, to a struct of C.
func loops(words []byte, n layout.Nest) []byte {
	for _, values := range append([][]int64{n.Shape}, n.Strides...) {
		for _, v := range values {
			words = binary.NativeEndian.AppendUint64(words, uint64(v))
		}
	}
	return words
}

// walkForm names what of operands a source depends on: how many loops walk them,
// and of a single loop which arrays stand still (0) or lie without gaps (1).
func walkForm(n layout.Nest, sizes []int64, small bool) string {
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

// atLeastOne gives a nest of no loops one of a single turn.
func atLeastOne(n layout.Nest) layout.Nest {
	if len(n.Shape) > 0 {
		return n
	}
	n.Shape = []int64{1}
	for i := range n.Strides {
		n.Strides[i] = []int64{0}
	}
	return n
}

// together is the shape that the operands take together, and the strides of the
// arrays as they are walked so, those that are written first.
func together(args []KernelArg, o *operands) (shape []int64, strides [][]int64, sizes []int64, err error) {
	var shapes [][]int64
	for _, a := range o.arrays {
		if a != nil {
			shapes = append(shapes, a.shape)
		}
	}
	if shape, err = layout.Broadcast(shapes...); err != nil {
		return nil, nil, nil, err
	}
	for i, a := range o.arrays {
		if a == nil {
			continue
		}
		if args[i].Write && !slices.Equal(a.shape, shape) {
			return nil, nil, nil, fmt.Errorf("argument %s of shape %v is written with elements of shape %v: %w", args[i].Name, a.shape, shape, ErrShape)
		}
		stretched, err := layout.Stretch(a.shape, a.strides, shape)
		if err != nil {
			return nil, nil, nil, err
		}
		strides, sizes = append(strides, stretched), append(sizes, a.dtype.Size())
	}
	if len(strides) == 0 {
		return nil, nil, nil, errors.New("there is no array among the operands")
	}
	return shape, strides, sizes, nil
}

// reduced is the shape that operands take together, apart: the axes that stay
// and those that are reduced.
type reduced struct {
	named   []bool  // which axes are reduced
	kept    []int64 // extents
	gone    []int64
	inPlace []int64 // of all axes, 1 where reduced
}

func (k *ReductionKernel) reduced(o *operands, axes []int) (r reduced, err error) {
	shape, _, _, err := together(k.args, o)
	if err != nil {
		return r, err
	}
	if axes == nil {
		axes = forwards(len(shape))
	}
	if r.named, err = layout.Axes(axes, len(shape)); err != nil {
		return r, err
	}
	r.kept, r.gone, r.inPlace = []int64{}, []int64{}, slices.Clone(shape)
	for i, extent := range shape {
		if r.named[i] {
			r.gone, r.inPlace[i] = append(r.gone, extent), 1
		} else {
			r.kept = append(r.kept, extent)
		}
	}
	return r, nil
}

// keptStrides are those of the axes that stay, of a result that has all axes or
// only those.
func (r reduced) keptStrides(strides []int64, all bool) []int64 {
	if !all {
		return strides
	}
	kept, _ := r.apart(strides)
	return kept
}

// apart are the strides along the axes that stay, and along the others.
func (r reduced) apart(strides []int64) (kept, gone []int64) {
	kept, gone = []int64{}, []int64{}
	for i, stride := range strides {
		if r.named[i] {
			gone = append(gone, stride)
		} else {
			kept = append(kept, stride)
		}
	}
	return kept, gone
}
