// Package ipc reads Arrow IPC files and streams as record batches. A local file is mapped
// if the options allow it, so that its batches are views of the page cache. Messages are
// checked before memory is allocated for them.
package ipc
