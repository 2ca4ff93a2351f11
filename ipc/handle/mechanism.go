package handle

import (
	"fmt"
	"strings"
)

// Mechanism is a way in which memory of one process is opened in another. The
// numbers are those of docs/sharing.md.
type Mechanism uint8

const (
	// Local is memory of the process itself, which needs no opening.
	Local Mechanism = 1
	// CUDAIPC is a handle of cuIpcGetMemHandle. CUDA opens it in another process
	// of the same PID namespace.
	CUDAIPC Mechanism = 2
	// CUDAFD is a file descriptor of virtual memory (cuMemCreate,
	// cuMemExportToShareableHandle). It opens in every PID namespace.
	CUDAFD Mechanism = 3
	// Memory is memory of the host, opened by a file descriptor (memfd_create).
	Memory Mechanism = 4
	// CUDAPool is memory of a pool (cuMemPoolExportPointer), which is opened by a
	// file descriptor of the pool (cuMemPoolExportToShareableHandle). That opens
	// all of the pool, in every PID namespace.
	CUDAPool Mechanism = 5
)

var mechanismNames = [...]string{Local: "local", CUDAIPC: "cuda-ipc", CUDAFD: "cuda-fd", Memory: "memory", CUDAPool: "cuda-pool"}

// Valid tells whether there is such a mechanism.
func (m Mechanism) Valid() bool { return m >= Local && m <= CUDAPool }

// String is the name in docs/sharing.md.
func (m Mechanism) String() string {
	if m.Valid() {
		return mechanismNames[m]
	}
	return fmt.Sprintf("mechanism(%d)", uint8(m))
}

// OnGPU tells whether the memory is a GPU's. That of Local may be.
func (m Mechanism) OnGPU() bool { return m == CUDAIPC || m == CUDAFD || m == CUDAPool }

// HasFile tells whether a file descriptor goes with the descriptor.
func (m Mechanism) HasFile() bool { return m == CUDAFD || m == Memory || m == CUDAPool }

// hasHandle tells whether the 64 bytes of Descriptor.Handle are there.
func (m Mechanism) hasHandle() bool { return m == Local || m == CUDAIPC || m == CUDAPool }

// Mechanisms are ways in the order of preference.
type Mechanisms []Mechanism

// String lists the names.
func (all Mechanisms) String() string {
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.String()
	}
	return strings.Join(names, ", ")
}
