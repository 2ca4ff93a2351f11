package blas

import (
	"errors"
	"fmt"
	"io"
	"unsafe"

	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/internal/cudalib"
	"github.com/quiver-gpu/quiver/internal/launch"
	"github.com/quiver-gpu/quiver/ndview"
)

// OverrideLt is the environment variable with the path of libcublasLt. If it is set, no
// other path is tried.
const OverrideLt = "QUIVER_LIBCUBLASLT"

var cublasLt = cudalib.Loader[*library]{
	Library: cudalib.Library{
		Sonames:  []string{"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
		Override: OverrideLt,
		Wheel:    "nvidia-cublas",
		NotFound: ErrNotFound,
	},
	Load: func(path string) (l *library, missing, err error) {
		return openLibrary(path, cublasLtCreate, cublasLtMatmul)
	},
}

// ltHandle is the cublasLtHandle_t of a device, which any thread may use.
type ltHandle struct {
	*library
	id uintptr
}

// Close destroys the handle.
func (h *ltHandle) Close() error { return h.call(cublasLtDestroy, h.id) }

// ltKey is the key of a device's ltHandle.
type ltKey struct{}

func ltHandleOf(dev *cudabuf.Device) (*ltHandle, error) {
	v, err := dev.Library(ltKey{}, func() (io.Closer, error) {
		// libcublas brings its own libcublasLt, which the loader then finds by its name.
		if _, err := cublas.Get(); err != nil {
			return nil, err
		}
		l, err := cublasLt.Get()
		if err != nil {
			return nil, err
		}
		h := &ltHandle{library: l}
		return h, l.call(cublasLtCreate, uintptr(unsafe.Pointer(&h.id)))
	})
	if err != nil {
		return nil, err
	}
	return v.(*ltHandle), nil
}

// Values of cublasLtMatmulDescAttributes_t and cublasLtMatmulPreferenceAttributes_t, and of
// cudaDataType.
const (
	ltTransA, ltTransB  = 3, 4
	ltMaxWorkspaceBytes = 1
	cudaE4M3, cudaE5M2  = 28, 29
)

// ltHeuristic is a cublasLtMatmulHeuristicResult_t.
type ltHeuristic struct {
	algo      [8]uint64
	workspace uint64
	state     int32
	waves     float32
	reserved  [4]int32
}

// multiplyPadded computes out = a bᵀ, where all matrices are in C order and have multiples
// of 16 rows and columns. In column-major terms, the result is the transposed second
// matrix times the first one, the only form that cublasLt has for 8-bit floats.
func multiplyPadded(dev *cudabuf.Device, s *cudabuf.Stream, a, b, out *ndview.NDBuffer, o *Float8Options) error {
	h, err := ltHandleOf(dev)
	if err != nil {
		return err
	}
	workspace, err := allocWorkspace(workspaceHopper, s)
	if err != nil {
		return err
	}
	defer workspace.Release()
	m, n, k := out.Shape()[1], out.Shape()[0], a.Shape()[1]
	bufferA, bufferB, bufferC := launch.CUDABuffer(a.Buffer()), launch.CUDABuffer(b.Buffer()), launch.CUDABuffer(out.Buffer())
	return s.Enqueue(func() error {
		p := ltProduct{ltHandle: h, m: m, n: n, k: k, typeA: o.B.cuda(), typeB: o.A.cuda(), typeC: numbers[o.DType].cublas.data, alpha: o.Scale}
		return p.run(bufferB.Address()+uintptr(b.Offset()), bufferA.Address()+uintptr(a.Offset()), bufferC.Address()+uintptr(out.Offset()), workspace.Address(), s.Handle())
	}, cudabuf.In(bufferA, 0), cudabuf.In(bufferB, 0), cudabuf.InOut(bufferC, 0), cudabuf.InOut(workspace, 0))
}

// cuda returns the cudaDataType of a format.
func (f Float8) cuda() int32 {
	if f == E5M2 {
		return cudaE5M2
	}
	return cudaE4M3
}

// ltProduct is the m x n product of a transposed k x m matrix and a k x n matrix, times
// alpha.
type ltProduct struct {
	*ltHandle
	m, n, k             int64
	typeA, typeB, typeC int32 // cudaDataType
	alpha               float32

	description, preference uintptr // cublasLtMatmulDesc_t, cublasLtMatmulPreference_t
	a, b, c                 uintptr // cublasLtMatrixLayout_t
}

// run enqueues the product of matrices at three addresses.
func (p *ltProduct) run(a, b, c, workspace, stream uintptr) error {
	defer p.destroy()
	err := p.describe()
	var found *ltHeuristic
	if err == nil {
		found, err = p.choose()
	}
	beta := float32(0)
	if err == nil {
		err = p.call(cublasLtMatmul, p.id, p.description, uintptr(unsafe.Pointer(&p.alpha)), a, p.a, b, p.b, uintptr(unsafe.Pointer(&beta)), c, p.c, c, p.c,
			uintptr(unsafe.Pointer(&found.algo)), workspace, workspaceHopper, stream)
	}
	if err != nil {
		return fmt.Errorf("%d x %d by %d x %d: %w", p.n, p.k, p.k, p.m, err)
	}
	return nil
}

// describe creates the objects that describe the product.
func (p *ltProduct) describe() error {
	transposed, not, size := opT, opN, uint64(workspaceHopper)
	return errors.Join(
		p.call(cublasLtMatmulDescCreate, uintptr(unsafe.Pointer(&p.description)), uintptr(compute32F), uintptr(cudaR32F)),
		p.call(cublasLtMatmulDescSetAttribute, p.description, ltTransA, uintptr(unsafe.Pointer(&transposed)), unsafe.Sizeof(transposed)),
		p.call(cublasLtMatmulDescSetAttribute, p.description, ltTransB, uintptr(unsafe.Pointer(&not)), unsafe.Sizeof(not)),
		p.call(cublasLtMatrixLayoutCreate, uintptr(unsafe.Pointer(&p.a)), uintptr(p.typeA), uintptr(p.k), uintptr(p.m), uintptr(p.k)),
		p.call(cublasLtMatrixLayoutCreate, uintptr(unsafe.Pointer(&p.b)), uintptr(p.typeB), uintptr(p.k), uintptr(p.n), uintptr(p.k)),
		p.call(cublasLtMatrixLayoutCreate, uintptr(unsafe.Pointer(&p.c)), uintptr(p.typeC), uintptr(p.m), uintptr(p.n), uintptr(p.m)),
		p.call(cublasLtMatmulPreferenceCreate, uintptr(unsafe.Pointer(&p.preference))),
		p.call(cublasLtMatmulPreferenceSetAttribute, p.preference, ltMaxWorkspaceBytes, uintptr(unsafe.Pointer(&size)), unsafe.Sizeof(size)))
}

// choose returns the algorithm that cublasLt expects to be the fastest.
func (p *ltProduct) choose() (*ltHeuristic, error) {
	found, n := &ltHeuristic{}, int32(0)
	err := p.call(cublasLtMatmulAlgoGetHeuristic, p.id, p.description, p.a, p.b, p.c, p.c, p.preference, 1,
		uintptr(unsafe.Pointer(found)), uintptr(unsafe.Pointer(&n)))
	if err == nil && (n < 1 || found.state != 0) {
		err = &Error{Call: functions[cublasLtMatmulAlgoGetHeuristic], Code: statusNotSupported}
	}
	return found, err
}

// statusNotSupported is CUBLAS_STATUS_NOT_SUPPORTED.
const statusNotSupported = 15

// destroy destroys what describe has created. Only an invalid handle causes an error.
func (p *ltProduct) destroy() {
	for f, handles := range map[function][]uintptr{
		cublasLtMatmulDescDestroy: {p.description}, cublasLtMatmulPreferenceDestroy: {p.preference}, cublasLtMatrixLayoutDestroy: {p.a, p.b, p.c},
	} {
		for _, h := range handles {
			if h != 0 {
				_ = p.call(f, h)
			}
		}
	}
}
