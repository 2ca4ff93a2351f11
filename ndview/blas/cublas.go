package blas

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"unsafe"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/cudalib"
	"github.com/quiver-gpu/quiver/internal/launch"
)

// Override is the environment variable with the path of libcublas. If it is set, no other
// path is tried.
const Override = "QUIVER_LIBCUBLAS"

// ErrNotFound means that cuBLAS is not installed. The error that wraps it names the paths
// tried.
var ErrNotFound = errors.New("cuBLAS not found")

// cublas is libcublas. Functions with 64-bit sizes exist from version 12.
var cublas = cudalib.Loader[*library]{
	Library: cudalib.Library{
		Sonames:  []string{"libcublas.so.13", "libcublas.so.12", "libcublas.so"},
		Override: Override,
		Wheel:    "nvidia-cublas",
		NotFound: ErrNotFound,
	},
	Load: func(path string) (l *library, missing, err error) {
		l, missing, err = openLibrary(path, cublasCreate, cublasGetProperty)
		if missing == nil && err == nil {
			err = l.readVersion()
		}
		return l, missing, err
	},
}

// openLibrary opens one library with a range of functions, see [cudalib.Symbols].
func openLibrary(path string, first, last function) (l *library, missing, err error) {
	l = &library{}
	missing, err = cudalib.Symbols(path, functions[first:last+1], l.entries[first:last+1], "not cuBLAS, or older than version 12")
	return l, missing, err
}

// Error is a failed call of cuBLAS.
type Error struct {
	Call string // such as "cublasGemmEx_64"
	Code int32  // cublasStatus_t
}

// Error returns the call and the name of the status.
func (e *Error) Error() string {
	name, ok := statusNames[e.Code]
	if !ok {
		name = "unknown status"
	}
	return fmt.Sprintf("%s: %s (%d)", e.Call, name, e.Code)
}

var statusNames = map[int32]string{
	1: "CUBLAS_STATUS_NOT_INITIALIZED", 3: "CUBLAS_STATUS_ALLOC_FAILED", 7: "CUBLAS_STATUS_INVALID_VALUE",
	8: "CUBLAS_STATUS_ARCH_MISMATCH", 11: "CUBLAS_STATUS_MAPPING_ERROR", 13: "CUBLAS_STATUS_EXECUTION_FAILED",
	14: "CUBLAS_STATUS_INTERNAL_ERROR", 15: "CUBLAS_STATUS_NOT_SUPPORTED", 16: "CUBLAS_STATUS_LICENSE_ERROR",
}

// function is a function of libcublas, and its index in library.entries.
type function int

const (
	noFunction function = iota
	cublasCreate
	cublasDestroy
	cublasSetStream
	cublasSetWorkspace
	cublasSetPointerMode
	cublasSetMathMode
	cublasGemmEx
	cublasGemmStridedBatchedEx
	cublasSgemv
	cublasDgemv
	cublasCgemv
	cublasZgemv
	cublasSger
	cublasDger
	cublasCgeru
	cublasZgeru
	cublasCgerc
	cublasZgerc
	cublasDotEx
	cublasDotcEx
	cublasGetProperty
	// Functions of libcublasLt.
	cublasLtCreate
	cublasLtDestroy
	cublasLtMatmulDescCreate
	cublasLtMatmulDescDestroy
	cublasLtMatmulDescSetAttribute
	cublasLtMatrixLayoutCreate
	cublasLtMatrixLayoutDestroy
	cublasLtMatmulPreferenceCreate
	cublasLtMatmulPreferenceDestroy
	cublasLtMatmulPreferenceSetAttribute
	cublasLtMatmulAlgoGetHeuristic
	cublasLtMatmul
	functionCount
)

var functions = [functionCount]string{
	cublasCreate: "cublasCreate_v2", cublasDestroy: "cublasDestroy_v2", cublasSetStream: "cublasSetStream_v2",
	cublasSetWorkspace: "cublasSetWorkspace_v2", cublasSetPointerMode: "cublasSetPointerMode_v2", cublasSetMathMode: "cublasSetMathMode",
	cublasGemmEx: "cublasGemmEx_64", cublasGemmStridedBatchedEx: "cublasGemmStridedBatchedEx_64",
	cublasSgemv: "cublasSgemv_v2_64", cublasDgemv: "cublasDgemv_v2_64", cublasCgemv: "cublasCgemv_v2_64", cublasZgemv: "cublasZgemv_v2_64",
	cublasSger: "cublasSger_v2_64", cublasDger: "cublasDger_v2_64", cublasCgeru: "cublasCgeru_v2_64", cublasZgeru: "cublasZgeru_v2_64",
	cublasCgerc: "cublasCgerc_v2_64", cublasZgerc: "cublasZgerc_v2_64", cublasDotEx: "cublasDotEx_64", cublasDotcEx: "cublasDotcEx_64",
	cublasGetProperty: "cublasGetProperty",

	cublasLtCreate: "cublasLtCreate", cublasLtDestroy: "cublasLtDestroy",
	cublasLtMatmulDescCreate: "cublasLtMatmulDescCreate", cublasLtMatmulDescDestroy: "cublasLtMatmulDescDestroy",
	cublasLtMatmulDescSetAttribute: "cublasLtMatmulDescSetAttribute",
	cublasLtMatrixLayoutCreate:     "cublasLtMatrixLayoutCreate", cublasLtMatrixLayoutDestroy: "cublasLtMatrixLayoutDestroy",
	cublasLtMatmulPreferenceCreate: "cublasLtMatmulPreferenceCreate", cublasLtMatmulPreferenceDestroy: "cublasLtMatmulPreferenceDestroy",
	cublasLtMatmulPreferenceSetAttribute: "cublasLtMatmulPreferenceSetAttribute",
	cublasLtMatmulAlgoGetHeuristic:       "cublasLtMatmulAlgoGetHeuristic", cublasLtMatmul: "cublasLtMatmul",
}

// library is an open libcublas or libcublasLt.
type library struct {
	entries [functionCount]uintptr
	version [3]int // of libcublas
}

// Version returns the version of cuBLAS, such as 13.1.0, which it opens. It needs no GPU.
func Version() (major, minor, patch int, err error) {
	l, err := cublas.Get()
	if err != nil {
		return 0, 0, 0, fmt.Errorf("blas.Version: %w", err)
	}
	return l.version[0], l.version[1], l.version[2], nil
}

// readVersion reads the version of libcublas.
func (l *library) readVersion() error {
	for i := range l.version {
		var v int32
		if err := l.call(cublasGetProperty, uintptr(i), uintptr(unsafe.Pointer(&v))); err != nil {
			return err
		}
		l.version[i] = int(v)
	}
	return nil
}

// cublasType is how cuBLAS computes a dtype.
type cublasType struct {
	data, compute, tf32 int32    // cudaDataType, cublasComputeType_t
	exec                int32    // cudaDataType in which a dot product is summed
	gemv, ger, gerc     function // noFunction if cuBLAS has none
}

// Values of cudaDataType and cublasComputeType_t.
const (
	cudaR16F, cudaR16BF, cudaR32F, cudaR64F, cudaC32F, cudaC64F int32 = 2, 14, 0, 1, 4, 5
	compute32F, compute32FTF32, compute64F                      int32 = 68, 77, 70
)

var (
	cublasFloat16    = cublasType{data: cudaR16F, compute: compute32F, tf32: compute32F, exec: cudaR32F}
	cublasBFloat16   = cublasType{data: cudaR16BF, compute: compute32F, tf32: compute32F, exec: cudaR32F}
	cublasFloat32    = cublasType{data: cudaR32F, compute: compute32F, tf32: compute32FTF32, exec: cudaR32F, gemv: cublasSgemv, ger: cublasSger, gerc: cublasSger}
	cublasFloat64    = cublasType{data: cudaR64F, compute: compute64F, tf32: compute64F, exec: cudaR64F, gemv: cublasDgemv, ger: cublasDger, gerc: cublasDger}
	cublasComplex64  = cublasType{data: cudaC32F, compute: compute32F, tf32: compute32FTF32, exec: cudaC32F, gemv: cublasCgemv, ger: cublasCgeru, gerc: cublasCgerc}
	cublasComplex128 = cublasType{data: cudaC64F, compute: compute64F, tf32: compute64F, exec: cudaC64F, gemv: cublasZgemv, ger: cublasZgeru, gerc: cublasZgerc}
)

// handles has the cuBLAS handles of a device. A handle serves one call at a time, on any
// stream, so there are as many as goroutines that have called at once.
type handles struct {
	library *library
	mu      sync.Mutex
	idle    []*handle
	all     []*handle
}

// handle is a cublasHandle_t.
type handle struct {
	id                uintptr
	stream, workspace uintptr // that it uses; its own workspace is never used
}

// handlesKey is the key of a device's handles.
type handlesKey struct{}

func handlesOf(dev *cudabuf.Device) (*handles, error) {
	v, err := dev.Library(handlesKey{}, func() (io.Closer, error) {
		l, err := cublas.Get()
		if err != nil {
			return nil, err
		}
		return &handles{library: l}, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*handles), nil
}

// get returns an idle handle, or creates one in the current context.
func (h *handles) get() (*handle, error) {
	h.mu.Lock()
	if n := len(h.idle); n > 0 {
		x := h.idle[n-1]
		h.idle = h.idle[:n-1]
		h.mu.Unlock()
		return x, nil
	}
	h.mu.Unlock()
	x := &handle{}
	if err := h.library.call(cublasCreate, uintptr(unsafe.Pointer(&x.id))); err != nil {
		return nil, err
	}
	h.mu.Lock()
	h.all = append(h.all, x)
	h.mu.Unlock()
	return x, h.library.call(cublasSetMathMode, x.id, mathDisallowReducedPrecision)
}

// mathDisallowReducedPrecision lets halves be summed in float32 only.
const mathDisallowReducedPrecision = 16

func (h *handles) put(x *handle) {
	h.mu.Lock()
	h.idle = append(h.idle, x)
	h.mu.Unlock()
}

// Close destroys the handles.
func (h *handles) Close() error {
	var failure error
	for _, x := range h.all {
		failure = errors.Join(failure, h.library.call(cublasDestroy, x.id))
	}
	h.all, h.idle = nil, nil
	return failure
}

// Sizes of the workspace that NVIDIA recommends, in bytes: for GPUs since Hopper, and for
// older ones.
const (
	workspaceHopper = 32 << 20
	workspaceOlder  = 4 << 20
)

// cublasExecutor computes products by cuBLAS. Each call has a workspace of its own from the
// device's pool: calls on several streams share none, a graph keeps that of its calls, and
// nothing is held between calls.
type cublasExecutor struct {
	cublasCaller
	handles *handles
	device  *cudabuf.Device
	stream  *cudabuf.Stream
}

// cublasCaller calls the functions that compute products.
type cublasCaller struct {
	*library
	number  *number
	compute int32
}

func newCublasExecutor(dev *cudabuf.Device, s *cudabuf.Stream, p *problem) (*cublasExecutor, error) {
	h, err := handlesOf(dev)
	if err != nil {
		return nil, err
	}
	e := &cublasExecutor{cublasCaller{h.library, p.number, p.number.cublas.compute}, h, dev, s}
	if p.o.TF32 {
		e.compute = p.number.cublas.tf32
	}
	return e, nil
}

func (e *cublasExecutor) multiply(x *product, a, b, c operand) error {
	bufferA, bufferB, bufferC := launch.CUDABuffer(a.buf), launch.CUDABuffer(b.buf), launch.CUDABuffer(c.buf)
	if bufferA == nil || bufferB == nil || bufferC == nil {
		return fmt.Errorf("memory of %v, %v and %v: want %v: %w", a.buf.Device(), b.buf.Device(), c.buf.Device(), e.device, arrowbuf.ErrDevice)
	}
	size := int64(workspaceOlder)
	if major, _ := e.device.ComputeCapability(); major >= 9 {
		size = workspaceHopper
	}
	workspace, err := allocWorkspace(size, e.stream)
	if err != nil {
		return err
	}
	defer workspace.Release()
	return e.stream.Enqueue(func() error {
		h, err := e.handles.get()
		if err != nil {
			return err
		}
		defer e.handles.put(h)
		if err := e.bind(h, workspace.Address(), size); err != nil {
			return err
		}
		return e.product(h.id, x, bufferA.Address()+uintptr(a.offset), bufferB.Address()+uintptr(b.offset), bufferC.Address()+uintptr(c.offset))
	}, cudabuf.In(bufferA, 0), cudabuf.In(bufferB, 0), cudabuf.InOut(bufferC, 0), cudabuf.InOut(workspace, 0))
}

// allocWorkspace returns memory for a call on a stream.
func allocWorkspace(size int64, s *cudabuf.Stream) (workspace *cudabuf.Buffer, err error) {
	if s.Capturing() {
		workspace, err = s.Device().Pool().Alloc(size)
	} else {
		workspace, err = s.Device().Pool().AllocOn(size, s)
	}
	if err != nil {
		return nil, fmt.Errorf("the workspace: %w", err)
	}
	return workspace, nil
}

// bind makes a handle use the stream and the workspace.
func (e *cublasExecutor) bind(h *handle, workspace uintptr, size int64) error {
	stream := e.stream.Handle()
	if h.workspace == workspace && h.stream == stream {
		return nil
	}
	h.workspace = 0
	// cublasSetStream selects the handle's own workspace, so it comes first.
	if err := e.call(cublasSetStream, h.id, stream); err != nil {
		return err
	}
	if err := e.call(cublasSetWorkspace, h.id, workspace, uintptr(size)); err != nil {
		return err
	}
	h.stream, h.workspace = stream, workspace
	return nil
}

// product calls the function that computes a product fastest.
func (l *cublasCaller) product(h uintptr, x *product, a, b, c uintptr) error {
	t, factor := &l.number.cublas, l.number.one
	one := x.batch == 1 && x.k > 0
	// Distances of the elements of operands that are vectors.
	columnA, rowA, columnB, rowB := int64(1), x.lda, int64(1), x.ldb
	if x.opA != opN {
		columnA, rowA = rowA, columnA
	}
	if x.opB != opN {
		columnB, rowB = rowB, columnB
	}
	switch {
	case one && x.m == 1 && x.n == 1 && x.alpha == factor && x.readC == 0 && (x.opA != opC || x.opB != opC):
		f := cublasDotEx
		if x.opA == opC {
			f = cublasDotcEx
		} else if x.opB == opC { // the first vector is conjugated
			f, a, b, rowA, columnB = cublasDotcEx, b, a, columnB, rowA
		}
		if err := l.call(cublasSetPointerMode, h, pointerModeDevice); err != nil {
			return err
		}
		err := l.call(f, h, uintptr(x.k), a, uintptr(t.data), uintptr(rowA), b, uintptr(t.data), uintptr(columnB), c, uintptr(t.data), uintptr(t.exec))
		return errors.Join(err, l.call(cublasSetPointerMode, h, pointerModeHost))
	case one && x.n == 1 && x.opB != opC && t.gemv != noFunction:
		rows, columns := x.m, x.k
		if x.opA != opN {
			rows, columns = columns, rows
		}
		return l.gemv(h, x, x.opA, rows, columns, a, x.lda, b, columnB, c, 1)
	case one && x.m == 1 && x.opA != opC && x.opB != opC && t.gemv != noFunction:
		op, rows, columns := opT, x.k, x.n
		if x.opB != opN {
			op, rows, columns = opN, columns, rows
		}
		return l.gemv(h, x, op, rows, columns, b, x.ldb, a, rowA, c, x.ldc)
	case one && x.k == 1 && x.beta == factor && x.opA != opC && t.ger != noFunction:
		f := t.ger
		if x.opB == opC {
			f = t.gerc
		}
		return l.call(f, h, uintptr(x.m), uintptr(x.n), uintptr(unsafe.Pointer(&x.alpha)), a, uintptr(columnA), b, uintptr(rowB), c, uintptr(x.ldc))
	case x.batch == 1:
		return l.call(cublasGemmEx, h, uintptr(x.opA), uintptr(x.opB), uintptr(x.m), uintptr(x.n), uintptr(x.k),
			uintptr(unsafe.Pointer(&x.alpha)), a, uintptr(t.data), uintptr(x.lda), b, uintptr(t.data), uintptr(x.ldb),
			uintptr(unsafe.Pointer(&x.beta)), c, uintptr(t.data), uintptr(x.ldc), uintptr(l.compute), gemmDefault)
	}
	return l.call(cublasGemmStridedBatchedEx, h, uintptr(x.opA), uintptr(x.opB), uintptr(x.m), uintptr(x.n), uintptr(x.k),
		uintptr(unsafe.Pointer(&x.alpha)), a, uintptr(t.data), uintptr(x.lda), uintptr(x.strideA), b, uintptr(t.data), uintptr(x.ldb), uintptr(x.strideB),
		uintptr(unsafe.Pointer(&x.beta)), c, uintptr(t.data), uintptr(x.ldc), uintptr(x.strideC), uintptr(x.batch), uintptr(l.compute), gemmDefault)
}

// gemv calls cublas<t>gemv. cuBLAS has none for halves, whose gemm is as fast.
func (l *cublasCaller) gemv(h uintptr, x *product, op int32, rows, columns int64, a uintptr, lda int64, v uintptr, step int64, y uintptr, stepY int64) error {
	return l.call(l.number.cublas.gemv, h, uintptr(op), uintptr(rows), uintptr(columns), uintptr(unsafe.Pointer(&x.alpha)), a, uintptr(lda),
		v, uintptr(step), uintptr(unsafe.Pointer(&x.beta)), y, uintptr(stepY))
}

// gemmDefault is CUBLAS_GEMM_DEFAULT, -1 as an int.
const gemmDefault = 0xffffffff

// Values of cublasPointerMode_t: where alpha, beta and results lie.
const (
	pointerModeHost   = 0
	pointerModeDevice = 1
)
