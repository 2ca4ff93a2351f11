package blas

import (
	"fmt"
	"math"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview"
)

// number describes a dtype.
type number struct {
	name    string       // in the names of kernels
	scalar  ndview.DType // of alpha and beta
	one     [2]uint64    // its number 1
	complex bool
	integer bool       // or bool: a GPU uses kernels of this package
	cublas  cublasType // otherwise
	host    func(x *product, a, b, c unsafe.Pointer)
}

// The number 1 as a factor.
var (
	oneFloat32 = [2]uint64{0x3f800000}
	oneFloat64 = [2]uint64{0x3ff0000000000000}
	oneInteger = [2]uint64{1}
)

var numbers = map[ndview.DType]*number{
	ndview.Float16:    {name: "f16", scalar: ndview.Float32, one: oneFloat32, cublas: cublasFloat16, host: multiplyFloat16},
	ndview.BFloat16:   {name: "bf16", scalar: ndview.Float32, one: oneFloat32, cublas: cublasBFloat16, host: multiplyBFloat16},
	ndview.Float32:    {name: "f32", scalar: ndview.Float32, one: oneFloat32, cublas: cublasFloat32, host: multiplyFloat32},
	ndview.Float64:    {name: "f64", scalar: ndview.Float64, one: oneFloat64, cublas: cublasFloat64, host: multiplyFloat64},
	ndview.Complex64:  {name: "c64", scalar: ndview.Complex64, complex: true, one: oneFloat32, cublas: cublasComplex64, host: multiplyComplex64},
	ndview.Complex128: {name: "c128", scalar: ndview.Complex128, complex: true, one: oneFloat64, cublas: cublasComplex128, host: multiplyComplex128},
	ndview.Bool:       {name: "bool", scalar: ndview.Bool, one: oneInteger, integer: true, host: multiplyBool},
	// Two's complement: the low bits of sums and products do not depend on the sign.
	ndview.Int8:   {name: "u8", scalar: ndview.Int8, one: oneInteger, integer: true, host: multiplyIntegers[uint8]},
	ndview.Uint8:  {name: "u8", scalar: ndview.Uint8, one: oneInteger, integer: true, host: multiplyIntegers[uint8]},
	ndview.Int16:  {name: "u16", scalar: ndview.Int16, one: oneInteger, integer: true, host: multiplyIntegers[uint16]},
	ndview.Uint16: {name: "u16", scalar: ndview.Uint16, one: oneInteger, integer: true, host: multiplyIntegers[uint16]},
	ndview.Int32:  {name: "u32", scalar: ndview.Int32, one: oneInteger, integer: true, host: multiplyIntegers[uint32]},
	ndview.Uint32: {name: "u32", scalar: ndview.Uint32, one: oneInteger, integer: true, host: multiplyIntegers[uint32]},
	ndview.Int64:  {name: "u64", scalar: ndview.Int64, one: oneInteger, integer: true, host: multiplyIntegers[uint64]},
	ndview.Uint64: {name: "u64", scalar: ndview.Uint64, one: oneInteger, integer: true, host: multiplyIntegers[uint64]},
}

// executor computes products.
type executor interface {
	multiply(x *product, a, b, c operand) error
}

// newExecutor returns the executor of a device.
func newExecutor(dev arrowbuf.Device, p *problem) (executor, error) {
	cuda, ok := arrowbuf.As[*cudabuf.Device](dev)
	if !ok {
		if p.o.Stream != nil {
			return nil, fmt.Errorf("a stream of %v for arrays on %v: %w", p.o.Stream.Device(), dev, arrowbuf.ErrDevice)
		}
		return &hostExecutor{p.number, p.dtype.Size()}, nil
	}
	stream := p.o.Stream
	if stream == nil {
		var err error
		if stream, err = cuda.DefaultStream(); err != nil {
			return nil, err
		}
	}
	if stream.Device() != cuda {
		return nil, fmt.Errorf("a stream of %v for arrays on %v: %w", stream.Device(), dev, arrowbuf.ErrDevice)
	}
	if p.number.integer || cuda.RunsHostKernels() {
		return &kernelExecutor{p.number, stream}, nil
	}
	return newCublasExecutor(cuda, stream, p)
}

// sizes returns the number of elements from the first to the last of each operand.
func (x *product) sizes() (a, b, c int64) {
	size := func(rows, cols, ld, stride int64) int64 {
		if rows == 0 || cols == 0 {
			return 0
		}
		return (x.batch-1)*stride + (cols-1)*ld + rows
	}
	rowsA, colsA, rowsB, colsB := x.m, x.k, x.k, x.n
	if x.opA != opN {
		rowsA, colsA = colsA, rowsA
	}
	if x.opB != opN {
		rowsB, colsB = colsB, rowsB
	}
	return size(rowsA, colsA, x.lda, x.strideA), size(rowsB, colsB, x.ldb, x.strideB), size(x.m, x.n, x.ldc, x.strideC)
}

// hostExecutor computes products in memory of the host.
type hostExecutor struct {
	number *number
	size   int64
}

func (e *hostExecutor) multiply(x *product, a, b, c operand) error {
	na, nb, nc := x.sizes()
	pa, errA := a.onHost(na * e.size)
	pb, errB := b.onHost(nb * e.size)
	pc, errC := c.onHost(nc * e.size)
	for _, err := range []error{errA, errB, errC} {
		if err != nil {
			return err
		}
	}
	e.number.host(x, pa, pb, pc)
	return nil
}

// onHost returns the address of n bytes of an operand.
func (o operand) onHost(n int64) (unsafe.Pointer, error) {
	if n == 0 {
		return nil, nil
	}
	raw, ok := arrowbuf.HostBytes(o.buf)
	if !ok {
		return nil, fmt.Errorf("memory of %v: want the host's or a GPU's: %w", o.buf.Device(), arrowbuf.ErrDevice)
	}
	if o.offset < 0 || o.offset+n > int64(len(raw)) {
		return nil, fmt.Errorf("%d bytes at offset %d of %d: %w", n, o.offset, len(raw), arrowbuf.ErrOutOfRange)
	}
	return unsafe.Pointer(&raw[o.offset]), nil
}

// kernelExecutor launches kernels of this package: those of integers on a GPU, and their
// host implementations for all numbers on a simulated device.
type kernelExecutor struct {
	number *number
	stream *cudabuf.Stream
}

// Sizes of kernels/blas/multiply.cu.
const (
	tileSize    = 64  // rows and columns of a block's tile
	wideSize    = 128 // those of a wide tile, which 64-bit integers do not have
	thinLimit   = 8   // fewer rows or columns are computed one by one
	blockDepth  = 512 // the least number of products that are worth a block
	maxSplits   = 2048
	maxGridSize = math.MaxInt32
)

func (e *kernelExecutor) multiply(x *product, a, b, c operand) error {
	y := *x
	arguments := []any{launch.In(a.buf, a.offset), launch.In(b.buf, b.offset), launch.InOut(c.buf, c.offset)}
	suffix := "_" + e.number.name
	name, tiles := "quiver_multiply", x.tiles(tileSize)
	if e.number.integer {
		switch {
		case min(x.m, x.n) <= thinLimit:
			name, tiles = "quiver_multiply_thin", x.m*x.n*x.batch
		case e.number.scalar.Size() < 8 && x.tiles(wideSize) >= int64(e.stream.Device().Multiprocessors()):
			name, tiles = "quiver_multiply_wide", x.tiles(wideSize)
		}
	}
	// Few results of many products are split, so that all multiprocessors work.
	splits := int64(1)
	if want := 8 * int64(e.stream.Device().Multiprocessors()); tiles < want && e.number.integer {
		splits = max(1, min(want/tiles, x.k/blockDepth, maxSplits))
	}
	if splits > 1 {
		y.split = 1
		if err := e.launch("quiver_scale"+suffix, (x.m*x.n*x.batch-1)/launch.Threads+1, arguments[2], launch.StructBytes(&y)); err != nil {
			return err
		}
	}
	return e.launch(name+suffix, tiles*splits, append(arguments, launch.StructBytes(&y), splits)...)
}

// tiles returns the number of square tiles of all results.
func (x *product) tiles(size int64) int64 {
	return ((x.m-1)/size + 1) * ((x.n-1)/size + 1) * x.batch
}

// launch launches a kernel whose blocks take a tile after the other if there are more
// tiles than a grid has blocks.
func (e *kernelExecutor) launch(name string, blocks int64, args ...any) error {
	return launch.OnStream(e.stream, multiplyProgram, name, min(blocks, maxGridSize), launch.Threads, args...)
}

// multiplyProgram has the kernels of integers and bool. For the other numbers, which cuBLAS
// multiplies on a GPU, it has only a host implementation.
var multiplyProgram = func() *cudabuf.Program {
	hosts := map[string]cudabuf.HostKernel{}
	for dtype, n := range numbers {
		size := dtype.Size()
		multiply := func(l *cudabuf.HostLaunch) { multiplyHostKernel(l, n, size) }
		hosts["quiver_multiply_"+n.name] = multiply
		if !n.integer {
			continue
		}
		hosts["quiver_multiply_thin_"+n.name], hosts["quiver_multiply_wide_"+n.name] = multiply, multiply
		hosts["quiver_scale_"+n.name] = func(l *cudabuf.HostLaunch) {
			x := launch.StructArg[product](l, 1)
			_, _, nc := x.sizes()
			launch.MustAlign(l, 0, size)
			x.k = 0
			n.host(&x, nil, nil, launch.PointerArg(l, 0, 0, nc*size))
		}
	}
	return launch.Program("blas/multiply", hosts)
}()

// multiplyHostKernel is the host implementation of the kernels that multiply.
func multiplyHostKernel(l *cudabuf.HostLaunch, n *number, size int64) {
	x := launch.StructArg[product](l, 3)
	if x.split != 0 { // the result is scaled already
		x.beta, x.readC = oneInteger, 1
	}
	na, nb, nc := x.sizes()
	for i := range 3 {
		launch.MustAlign(l, i, size)
	}
	n.host(&x, launch.PointerArg(l, 0, 0, na*size), launch.PointerArg(l, 1, 0, nb*size), launch.PointerArg(l, 2, 0, nc*size))
}
