// Package memfile shares memory of the host by files that live in memory alone
// (memfd_create). It needs Linux.
//
// [Create] makes one that this process writes. Another process has it from a
// descriptor, or as /proc/PID/fd/FD, and reads it by [Map]: the file is sealed, so
// that it stays as large as it is and nobody else writes to it.
package memfile
