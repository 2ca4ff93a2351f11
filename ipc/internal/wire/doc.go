// Package wire implements the frames and messages of the sharing protocol of
// docs/sharing.md, and the socket connection that carries them. It validates
// everything that a peer sends, except what needs knowledge of leases and blocks.
// Errors wrap [ErrFault] if the peer violates the protocol.
package wire
