package soft

import (
	"fmt"

	"github.com/quiver-gpu/quiver/cudabuf/internal/driver"
)

// end is one end of a copy. It is looked up when the copy is issued, where a
// mistake is an error of the call, and again when the copy runs: a graph runs
// long after, and memory may be gone.
type end func() ([]byte, error)

// kept is memory that the copy itself keeps.
func kept(b []byte) end { return func() ([]byte, error) { return b, nil } }

// readable is an end of device memory.
func (dev *device) readable(call string, address uintptr, n int64) (end, error) {
	if _, ok := dev.arena.bytes(address, n); !ok {
		return nil, invalid(call, "%d bytes at %#x are not one allocation of cuda:%d", n, address, dev.ordinal)
	}
	return dev.reach(call, address, n), nil
}

// writable is readable without memory that devices may only read.
func (dev *device) writable(call string, address uintptr, n int64) (end, error) {
	to, err := dev.readable(call, address, n)
	if err == nil && dev.arena.readOnly(address) {
		return nil, invalid(call, "%#x is registered for reading alone", address)
	}
	return to, err
}

// at is an end of pinned memory of the host.
func (dev *device) at(call string, host []byte) end {
	return dev.reach(call, addressOf(host), int64(len(host)))
}

func (dev *device) reach(call string, address uintptr, n int64) end {
	return func() ([]byte, error) {
		b, ok := dev.arena.running(address, n)
		if !ok {
			return nil, &driver.Error{Call: call, Code: driver.IllegalAddress, Detail: fmt.Sprintf("%d bytes from %s on, gone when the copy runs", n, where(address))}
		}
		return b, nil
	}
}
