package collective

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"sync/atomic"
)

// torchrun listens at MASTER_PORT itself: a TCPStore of PyTorch, a server of keys and values.
// Rank 0 sets the ID in it, and the others wait for it. The messages are those of PyTorch's
// TCPStore.cpp and TCPStoreLibUvBackend.cpp, in the byte order of the machine: a byte for the
// query, and lengths of 8 bytes before keys and values.
const (
	storeValidate = 0
	storeSet      = 1
	storeGet      = 3
	storeWait     = 6
	storeMagic    = 0x3C85F7CE
	storeFound    = 0 // the reply to storeWait
)

// storeMeetings counts the communicators of this process that met at a store. All ranks make
// them in the same order.
var storeMeetings atomic.Int64

// storeKey returns the key of the next ID. A worker group that torchrun starts again uses
// another one. PyTorch puts a slash before the keys of clients.
func storeKey() string {
	return fmt.Sprintf("/quiver/collective/%s/%s/%d", os.Getenv("TORCHELASTIC_RUN_ID"),
		os.Getenv("TORCHELASTIC_RESTART_COUNT"), storeMeetings.Add(1))
}

// meetAtTorchStore passes the ID through a TCPStore.
func (s *setup) meetAtTorchStore(address string) (*Comm, error) {
	var id ID
	if s.rank == 0 {
		// Ranks on other machines reach the address from which this one reaches the store.
		host, err := s.outgoingHost(address)
		if err == nil {
			id, err = newID("tcp:"+net.JoinHostPort(host, "0"), s.deadline())
		}
		if err != nil {
			return nil, err
		}
	}
	conn, err := dialRoot("tcp:"+address, s.deadline())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(s.deadline())
	if id, err = exchangeByStore(conn, storeKey(), s.rank == 0, id); err != nil {
		return nil, fmt.Errorf("PyTorch's store at %s: %w: %w", address, ErrRendezvous, err)
	}
	return s.joinID(id)
}

// outgoingHost returns the address of this machine from which it reaches another.
func (s *setup) outgoingHost(address string) (string, error) {
	conn, err := dialRoot("tcp:"+address, s.deadline())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

// exchangeByStore sets the ID in a store, or waits for it.
func exchangeByStore(conn io.ReadWriter, key string, set bool, id ID) (ID, error) {
	var request bytes.Buffer
	text := func(s string) {
		request.Write(binary.NativeEndian.AppendUint64(nil, uint64(len(s))))
		request.WriteString(s)
	}
	request.WriteByte(storeValidate)
	request.Write(binary.NativeEndian.AppendUint32(nil, storeMagic))
	if set {
		request.WriteByte(storeSet)
		text(key)
		text(string(id[:]))
	} else {
		request.WriteByte(storeWait)
		request.Write(binary.NativeEndian.AppendUint64(nil, 1))
		text(key)
	}
	if !set {
		if _, err := conn.Write(request.Bytes()); err != nil {
			return ID{}, err
		}
		var reply [1]byte
		if _, err := io.ReadFull(conn, reply[:]); err != nil {
			return ID{}, err
		}
		if reply[0] != storeFound {
			return ID{}, fmt.Errorf("reply to a wait: got %d, want %d: %w", reply[0], storeFound, errMessage)
		}
		request.Reset()
	}
	// Rank 0 reads its value again, so that the store has it before the connection ends.
	request.WriteByte(storeGet)
	text(key)
	if _, err := conn.Write(request.Bytes()); err != nil {
		return ID{}, err
	}
	var n [8]byte
	if _, err := io.ReadFull(conn, n[:]); err != nil {
		return ID{}, err
	}
	if got := binary.NativeEndian.Uint64(n[:]); got != IDBytes {
		return ID{}, fmt.Errorf("value of %d bytes, want %d: %w", got, IDBytes, ErrID)
	}
	value := make([]byte, IDBytes)
	if _, err := io.ReadFull(conn, value); err != nil {
		return ID{}, err
	}
	return ParseID(value)
}
