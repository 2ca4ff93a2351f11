// Package handle names memory of one process for another on the same machine.
//
// A [Descriptor] says where bytes lie: by which [Mechanism] their allocation is
// opened, how large that is, which part of it is meant, in which GPU's memory,
// and whose it is. Its binary form, docs/sharing.md describes it, is what the
// protocol of package ipc sends, and stands for itself where another protocol
// carries a handle. File descriptors travel beside it.
//
// CUDA's own handles name an allocation, whatever address was exported: who
// sends them alone loses the offset of a slice, as pyarrow.cuda does. Its form
// is read and written too.
package handle
