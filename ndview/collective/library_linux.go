package collective

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/quiver-gpu/quiver/internal/cudalib"
)

// function is a function of libnccl, and its index in library.entries.
type function int

const (
	ncclGetVersion function = iota
	ncclGetUniqueID
	ncclGetLastError
	ncclCommInitRankScalable
	ncclCommSplit
	ncclCommGetAsyncError
	ncclCommDestroy
	ncclCommAbort
	ncclGroupStart
	ncclGroupEnd
	ncclAllReduce
	ncclReduce
	ncclReduceScatter
	ncclBroadcast
	ncclAllGather
	ncclSend
	ncclRecv
	functionCount
)

var functions = [functionCount]string{
	"ncclGetVersion", "ncclGetUniqueId", "ncclGetLastError", "ncclCommInitRankScalable", "ncclCommSplit",
	"ncclCommGetAsyncError", "ncclCommDestroy", "ncclCommAbort", "ncclGroupStart", "ncclGroupEnd",
	"ncclAllReduce", "ncclReduce", "ncclReduceScatter", "ncclBroadcast", "ncclAllGather", "ncclSend", "ncclRecv",
}

// library is an open libnccl.
type library struct {
	path    string
	version int // 10000 times the major version, 100 times the minor one
	entries [functionCount]uintptr
}

// oldestVersion is the first release with all functions used here: it passes an
// ncclUniqueId by its address (ncclCommInitRankScalable), not by value.
const oldestVersion = 22300

// openLibrary opens one library, see [cudalib.Symbols].
func openLibrary(path string) (_ *library, missing, err error) {
	l := &library{path: path}
	if missing, err = cudalib.Symbols(path, functions[:], l.entries[:], "not NCCL, or older than 2.23"); missing != nil || err != nil {
		if err != nil {
			err = fmt.Errorf("%w: %w", err, ErrNotFound)
		}
		return nil, missing, err
	}
	var version int32
	if r := l.call(ncclGetVersion, uintptr(unsafe.Pointer(&version))); r != Success {
		return nil, nil, &Error{Call: "ncclGetVersion", Code: r}
	}
	if version < oldestVersion {
		return nil, nil, fmt.Errorf("%s: got version %d, want at least %d: %w", path, version, oldestVersion, ErrNotFound)
	}
	l.version = int(version)
	return l, nil, nil
}

// call calls one function. The directive keeps the memory that pointers in args refer to
// alive and in place until the call returns. The pointers must be converted to uintptr in the
// call expression itself.
//
//go:uintptrescapes
func (l *library) call(f function, args ...uintptr) Result {
	r, _, _ := purego.SyscallN(l.entries[f], args...)
	return Result(int32(r)) // the upper half of the register is undefined
}

// check returns the error of a result.
func (l *library) check(f function, comm uintptr, r Result) error {
	if r == Success || r == InProgress {
		return nil
	}
	text, _, _ := purego.SyscallN(l.entries[ncclGetLastError], comm)
	return &Error{Call: functions[f], Code: r, Detail: goString(text)}
}

// goString copies a C string in memory of the library. The double indirection tells vet that
// the address does not point into Go's heap.
func goString(address uintptr) string {
	p := *(**byte)(unsafe.Pointer(&address))
	if p == nil {
		return ""
	}
	n := 0
	for *(*byte)(unsafe.Add(unsafe.Pointer(p), n)) != 0 {
		n++
	}
	return string(unsafe.Slice(p, n))
}

// The layout of ncclConfig_t up to version 2.18.5, whose fields suffice. NCCL copies as many
// bytes as size says, and fills the rest by version.
const (
	configBytes   = 48
	configMagic   = 0xcafebeef
	configVersion = 21805
)

// config returns an ncclConfig_t.
func config(blocking, splitShare bool) []byte {
	c := make([]byte, configBytes)
	flag := func(at int, set bool) {
		if set {
			c[at] = 1
		}
	}
	undefined := int32(math.MinInt32)
	binary.NativeEndian.PutUint64(c, configBytes)
	binary.NativeEndian.PutUint32(c[8:], configMagic)
	binary.NativeEndian.PutUint32(c[12:], configVersion)
	flag(16, blocking)
	for _, at := range []int{20, 24, 28} { // cgaClusterSize, minCTAs, maxCTAs
		binary.NativeEndian.PutUint32(c[at:], uint32(undefined))
	}
	flag(40, splitShare)
	return c
}

// ncclHandle is where NCCL writes an ncclComm_t, possibly after the call that asks for it.
// It is pinned, since NCCL keeps its address.
type ncclHandle struct {
	comm   *uintptr
	pinner *runtime.Pinner
}

func newHandle() ncclHandle {
	h := ncclHandle{new(uintptr), &runtime.Pinner{}}
	h.pinner.Pin(h.comm)
	return h
}

func (h ncclHandle) get() uintptr { return atomic.LoadUintptr(h.comm) }
func (h ncclHandle) unpin()       { h.pinner.Unpin() }

// uniqueID returns a new ncclUniqueId.
func (l *library) uniqueID() ([]byte, error) {
	id := make([]byte, IDBytes)
	r := l.call(ncclGetUniqueID, uintptr(unsafe.Pointer(&id[0])))
	return id, l.check(ncclGetUniqueID, 0, r)
}

// start begins to make a non-blocking communicator whose Split shares its resources.
func (l *library) start(h ncclHandle, id []byte, rank, size int) error {
	c := config(false, true)
	r := l.call(ncclCommInitRankScalable, uintptr(unsafe.Pointer(h.comm)), uintptr(size), uintptr(rank), 1,
		uintptr(unsafe.Pointer(&id[0])), uintptr(unsafe.Pointer(&c[0])))
	return l.check(ncclCommInitRankScalable, 0, r)
}

// split begins to make a blocking communicator of the same ranks.
func (l *library) split(parent uintptr, h ncclHandle, rank int) error {
	c := config(true, true)
	r := l.call(ncclCommSplit, parent, 0, uintptr(rank), uintptr(unsafe.Pointer(h.comm)), uintptr(unsafe.Pointer(&c[0])))
	return l.check(ncclCommSplit, parent, r)
}

// asyncError returns the state of a communicator.
func (l *library) asyncError(comm uintptr) Result {
	var state int32
	if r := l.call(ncclCommGetAsyncError, comm, uintptr(unsafe.Pointer(&state))); r != Success {
		return r
	}
	return Result(state)
}

// group begins or ends a group of the calling thread.
func (l *library) group(f function) error { return l.check(f, 0, l.call(f)) }

// enqueue calls a function of NCCL for one communicator and stream.
func (l *library) enqueue(f function, comm, stream uintptr, args ...uintptr) error {
	var a [8]uintptr
	n := copy(a[:], args)
	a[n], a[n+1] = comm, stream
	r, _, _ := purego.SyscallN(l.entries[f], a[:n+2]...) // the arguments are no memory of Go
	return l.check(f, comm, Result(int32(r)))
}
