// Package handle describes memory of one process to another process on the same
// machine.
//
// A [Descriptor] names bytes: the [Mechanism] that opens their allocation, the
// size of the allocation, the part that is meant, the GPU, and the exporting
// process. docs/sharing.md defines its binary form. The protocol of package ipc
// sends it, and other protocols can carry it as a handle. File descriptors are
// sent beside it.
//
// A CUDA IPC handle always names a whole allocation, so a slice also needs its
// offset. The form of pyarrow.cuda has no offset; this package reads and writes
// that form too.
package handle
