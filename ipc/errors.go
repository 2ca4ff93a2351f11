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
	// ErrNotFound: the name is not published.
	ErrNotFound = errors.New("the name is not published")
	// ErrWrongKind: the name is published, but is not a table, stream, buffer or
	// array as requested.
	ErrWrongKind = errors.New("the name is of another kind")
	// ErrExists: the name is already published.
	ErrExists = errors.New("the name is already published")
	// ErrNoMechanism: no mechanism of both sides can share the memory. The text lists
	// the mechanisms of both.
	ErrNoMechanism = errors.New("no common mechanism can share the memory")
	// ErrRefused: the peer does not accept this user or process, or runs as a user
	// that the options do not allow.
	ErrRefused = errors.New("refused")
	// ErrServerGone: the server has died or closed the connection. Memory that was
	// opened from it stays mapped until it is released, but the server no longer
	// protects it from being overwritten.
	ErrServerGone = errors.New("the server is gone")
	// ErrLeaseExpired: the client held a lease for longer than the server allows, so
	// the server closed the connection. The client's error also wraps ErrServerGone.
	ErrLeaseExpired = errors.New("a lease expired")
	// ErrClosed: the stream, the server or the client was closed.
	ErrClosed = errors.New("closed")
	// ErrFault: the peer violated the protocol.
	ErrFault = wire.ErrFault
	// ErrVersion: client and server have no protocol version in common.
	ErrVersion = errors.New("no common version of the sharing protocol")
)

// codes maps the error codes of the protocol to errors. If an error wraps several
// of them, the smallest code is sent.
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

// errorMessage returns the ERROR message for err.
func errorMessage(err error) wire.ErrorMessage {
	for _, code := range slices.Sorted(maps.Keys(codes)) {
		if errors.Is(err, codes[code]) {
			return wire.ErrorMessage{Code: code, Text: err.Error()}
		}
	}
	return wire.ErrorMessage{Code: wire.CodeFailed, Text: err.Error()}
}

// remoteError is an error that the peer sent. It wraps the sentinel of its code.
type remoteError struct{ wire.ErrorMessage }

func (e *remoteError) Error() string { return fmt.Sprintf("the peer reported: %s", e.Text) }
func (e *remoteError) Unwrap() error { return codes[e.Code] }

func parseError(payload []byte) error {
	var m wire.ErrorMessage
	if err := m.Parse(payload); err != nil {
		return err
	}
	return &remoteError{m}
}
