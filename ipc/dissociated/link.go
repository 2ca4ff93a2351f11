package dissociated

import "errors"

// Link is the two connections that a stream goes by, which may be one and the
// same: metadata goes without tags, bodies with.
type Link struct{ Metadata, Data Conn }

// single tells whether both streams go by one connection.
func (l Link) single() bool { return l.Metadata == l.Data }

func (l Link) each(f func(Conn) error) error {
	if l.single() {
		return f(l.Data)
	}
	return errors.Join(f(l.Metadata), f(l.Data))
}

func (l Link) closeSend() error { return l.each(Conn.CloseSend) }

// Close closes both connections.
func (l Link) Close() error { return l.each(Conn.Close) }
