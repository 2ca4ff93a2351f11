package ipc

import "time"

// WithPeerTimeout changes how long the server waits for HELLO and for writes to a peer.
func (o ServerOptions) WithPeerTimeout(limit time.Duration) ServerOptions {
	o.peerTimeout = limit
	return o
}
