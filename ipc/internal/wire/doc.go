// Package wire is the sharing protocol of docs/sharing.md: its frames, messages
// and the socket that carries them. What comes from a peer is checked here, as
// far as that takes no knowledge of leases and blocks; [ErrFault] is what breaks
// the protocol.
//
//	frame.go         the header, types
//	cursor.go        reading the fields of a payload
//	hello.go ...     the payloads
//	conn.go          frames over a socket, with file descriptors
//	queue.go         frames that wait to be sent
package wire
