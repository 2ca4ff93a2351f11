package collective

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/quiver-gpu/quiver/ndview"
)

// Errors that a caller can act on; test with errors.Is.
var (
	// ErrID means that bytes are not an ID, or that it was damaged on its way.
	ErrID = errors.New("invalid communicator id")
	// ErrRendezvous means that the ranks did not find each other, or do not fit together.
	ErrRendezvous = errors.New("ranks do not form a communicator")
	// ErrMismatch means that ranks called different operations, or the same one with other
	// types, counts, operators or roots.
	ErrMismatch = errors.New("ranks disagree about an operation")
	// ErrPeer means that another rank has died, failed or closed the communicator.
	ErrPeer = errors.New("another rank is gone")
	// ErrTimeout means that Options.Timeout has passed.
	ErrTimeout = errors.New("timeout of a collective operation")
	// ErrAborted means that Comm.Abort was called.
	ErrAborted = errors.New("communicator aborted")
	// ErrClosed means that the communicator is closed.
	ErrClosed = errors.New("communicator closed")
	// ErrRank means that a rank, a root or a number of ranks is out of range.
	ErrRank = errors.New("rank out of range")
	// ErrNotFound means that NCCL was not found; the text names the searched paths.
	ErrNotFound = errors.New("NCCL not found")
)

// IDBytes is the number of bytes of an ID, as of an ncclUniqueId.
const IDBytes = 128

// ID identifies a communicator. It holds the address at which the process that made it
// waits for the ranks, a secret and a checksum. Send its bytes to the other ranks by any
// means: all of them must have the same ID, and one ID serves one communicator. IDs can be
// compared and be keys of maps.
type ID [IDBytes]byte

// Layout of an ID.
const (
	idMagic        = "QVC1"
	idTokenStart   = 4
	idTokenBytes   = 16
	idAddressStart = idTokenStart + idTokenBytes // text with its length in one byte
	idSumStart     = IDBytes - 4                 // CRC-32C of all bytes before
	idAddressMax   = idSumStart - idAddressStart - 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewID returns a new ID, and waits for the ranks in the background of this process, which
// need not be a rank itself. It must live until all ranks have joined. An ID is given up if
// they have not within [DefaultTimeout], also if [Options] allow the ranks longer.
//
// address is where ranks connect: "unix" for ranks on this machine, or "tcp:HOST:PORT" with
// an address of this machine that the other machines reach. PORT may be 0 for any port.
func NewID(address string) (ID, error) {
	id, err := newID(address, time.Now().Add(DefaultTimeout))
	if err != nil {
		return ID{}, fmt.Errorf("collective.NewID: %w", err)
	}
	return id, nil
}

// newID is NewID with the time at which the ID is given up.
func newID(address string, deadline time.Time) (ID, error) {
	r, err := newRoot(address)
	if err != nil {
		return ID{}, err
	}
	id, err := r.id()
	if err != nil {
		r.close()
		return ID{}, err
	}
	go r.serve(deadline)
	return id, nil
}

// ParseID returns the ID with the given bytes. It returns ErrID unless they are the 128
// bytes of an ID.
func ParseID(b []byte) (id ID, err error) {
	if len(b) != IDBytes {
		return id, fmt.Errorf("collective.ParseID: got %d bytes, want %d: %w", len(b), IDBytes, ErrID)
	}
	copy(id[:], b)
	if _, _, err := id.address(); err != nil {
		return ID{}, fmt.Errorf("collective.ParseID: %w", err)
	}
	return id, nil
}

// Compare orders IDs by their bytes, as bytes.Compare.
func (id ID) Compare(other ID) int { return bytes.Compare(id[:], other[:]) }

// String returns the bytes in hexadecimal.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// MarshalText returns the bytes in hexadecimal.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText is the reverse of MarshalText. It returns ErrID for anything else.
func (id *ID) UnmarshalText(text []byte) error {
	if id == nil {
		return fmt.Errorf("collective.ID.UnmarshalText: %w", ndview.ErrNil)
	}
	raw, err := hex.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return fmt.Errorf("collective.ID.UnmarshalText: %w: %w", ErrID, err)
	}
	parsed, err := ParseID(raw)
	if err == nil {
		*id = parsed
	}
	return err
}

// makeID returns the ID of an address in the form of splitAddress.
func makeID(token [idTokenBytes]byte, address string) (id ID, err error) {
	if len(address) > idAddressMax {
		return id, fmt.Errorf("address %q: got %d bytes, want at most %d: %w", address, len(address), idAddressMax, ErrID)
	}
	copy(id[:], idMagic)
	copy(id[idTokenStart:], token[:])
	id[idAddressStart] = byte(len(address))
	copy(id[idAddressStart+1:], address)
	binary.LittleEndian.PutUint32(id[idSumStart:], crc32.Checksum(id[:idSumStart], castagnoli))
	return id, nil
}

// address returns the address of the root and its secret. It returns ErrID for a damaged ID.
func (id ID) address() (address string, token [idTokenBytes]byte, err error) {
	if string(id[:len(idMagic)]) != idMagic {
		return "", token, fmt.Errorf("bytes do not begin with %q: %w", idMagic, ErrID)
	}
	if got, want := crc32.Checksum(id[:idSumStart], castagnoli), binary.LittleEndian.Uint32(id[idSumStart:]); got != want {
		return "", token, fmt.Errorf("checksum: got %08x, want %08x: %w", got, want, ErrID)
	}
	n := int(id[idAddressStart])
	if n > idAddressMax {
		return "", token, fmt.Errorf("address of %d bytes, want at most %d: %w", n, idAddressMax, ErrID)
	}
	copy(token[:], id[idTokenStart:])
	return string(id[idAddressStart+1 : idAddressStart+1+n]), token, nil
}

// newToken returns a random secret.
func newToken() (token [idTokenBytes]byte) {
	rand.Read(token[:]) // never fails
	return token
}

// splitAddress splits "unix:PATH" or "tcp:HOST:PORT", which package net dials.
func splitAddress(address string) (network, rest string, err error) {
	network, rest, _ = strings.Cut(address, ":")
	if network != "unix" && network != "tcp" || rest == "" {
		return "", "", fmt.Errorf("address %q: want unix:PATH or tcp:HOST:PORT: %w", address, ErrRendezvous)
	}
	return network, rest, nil
}

// listen listens at an address in the form of splitAddress, or at a new one of this machine
// if it is "unix".
func listen(address string) (net.Listener, error) {
	if address == "unix" {
		return listenLocally()
	}
	network, rest, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen(network, rest)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRendezvous, err)
	}
	return l, nil
}

// listenLocally listens at a new Unix socket. On Linux its name is abstract, so that a killed
// process leaves no file.
func listenLocally() (net.Listener, error) {
	token := newToken()
	name := "quiver-collective-" + hex.EncodeToString(token[:])
	if runtime.GOOS == "linux" {
		name = "@" + name
	} else {
		name = filepath.Join(os.TempDir(), name)
	}
	l, err := net.Listen("unix", name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRendezvous, err)
	}
	return l, nil
}

// addressOf returns the address of a listener in the form of splitAddress.
func addressOf(l net.Listener) string { return l.Addr().Network() + ":" + l.Addr().String() }
