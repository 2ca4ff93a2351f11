package ipc

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc/internal/wire"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrNotFound: nothing is published under the name.
	ErrNotFound = errors.New("nothing is published under this name")
	// ErrWrongKind: the name is that of a table, a stream or a buffer, and another
	// was asked for.
	ErrWrongKind = errors.New("the name is of another kind")
	// ErrExists: the name is taken.
	ErrExists = errors.New("the name is taken")
	// ErrNoMechanism: the memory cannot be shared in a way that both sides have.
	// The text says which those are.
	ErrNoMechanism = errors.New("no way of sharing memory that both sides have fits")
	// ErrRefused: the peer does not take this user or process, or is not of a
	// user that may be talked to.
	ErrRefused = errors.New("refused")
	// ErrServerGone: the server has died or closed the connection. What was
	// opened from it stays mapped until it is released, but is no longer the
	// server's to keep.
	ErrServerGone = errors.New("the server is gone")
	// ErrLeaseExpired: the client held something for longer than the server lets
	// it, which ended the connection. To the client the server is gone as well.
	ErrLeaseExpired = errors.New("a lease expired")
	// ErrClosed: the catalog's stream, the server or the client was closed.
	ErrClosed = errors.New("closed")
	// ErrFault: the peer broke the protocol.
	ErrFault = wire.ErrFault
	// ErrVersion: the peer speaks no version of the protocol that is known here.
	ErrVersion = errors.New("no common version of the sharing protocol")
)

// codes are the errors that cross the socket. Of two in one error the smaller code
// is told.
var codes = map[wire.Code]error{
	wire.CodeFault:     ErrFault,
	wire.CodeVersion:   ErrVersion,
	wire.CodeRefused:   ErrRefused,
	wire.CodeNotFound:  ErrNotFound,
	wire.CodeKind:      ErrWrongKind,
	wire.CodeMechanism: ErrNoMechanism,
	wire.CodeMemory:    arrowbuf.ErrOutOfMemory,
	wire.CodeClosing:   ErrServerGone,
	wire.CodeExpired:   ErrLeaseExpired,
}

// tell is an error as the peer is told it.
func tell(err error) wire.ErrorMessage {
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		if errors.Is(err, codes[code]) {
			return wire.ErrorMessage{Code: code, Text: err.Error()}
		}
	}
	return wire.ErrorMessage{Code: wire.CodeFailed, Text: err.Error()}
}

// remote is an error that the peer told, of the sentinel that its code says.
type remote struct{ wire.ErrorMessage }

func (e *remote) Error() string { return fmt.Sprintf("the peer says: %s", e.Text) }
func (e *remote) Unwrap() error { return codes[e.Code] }

func parseError(payload []byte) error {
	var m wire.ErrorMessage
	if err := m.Parse(payload); err != nil {
		return err
	}
	return &remote{m}
}
