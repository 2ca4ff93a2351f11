// Package collective combines and exchanges arrays between the ranks of a communicator:
// processes, or goroutines of one process, that own one device each.
//
// Ranks of NVIDIA GPUs communicate by NCCL, which is opened when it is first needed, without
// cgo. Ranks of the CPU device and of the simulated device communicate by shared memory, and
// by sockets between machines, with the same functions and semantics. [New] makes a
// communicator from an [ID], [Connect] from a [Rendezvous], [NewAll] from the devices of one
// process, and [Comm.Split] from another communicator.
//
// Ranks are connected by sockets beside NCCL. So a rank that dies or fails is an error of all
// others, and operations end after [Options.Timeout]. Ranks that call different operations
// get [ErrMismatch]; on GPUs if [Options.Check] is set.
package collective
