package ipc

import "time"

// Impatient waits less for a peer to say HELLO, or to take what it is sent.
func (o ServerOptions) Impatient(limit time.Duration) ServerOptions {
	o.patience = limit
	return o
}
