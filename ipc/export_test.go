package ipc

import "time"

// WithPeerTimeout waits less for a peer to say HELLO, or to take what it is sent.
func (o ServerOptions) WithPeerTimeout(limit time.Duration) ServerOptions {
	o.peerTimeout = limit
	return o
}
