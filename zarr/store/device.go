package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// BufferStore is a store whose values are device buffers, which it returns without a copy
// to the host.
type BufferStore interface {
	Store
	// GetBuffer returns a value or a range of it. The caller must release the result and
	// must not modify it. It returns an error wrapping ErrNotFound if no value has the
	// key.
	GetBuffer(ctx context.Context, key string, r Range) (arrowbuf.Buffer, error)
	// SetBuffer stores a copy of a buffer of any device.
	SetBuffer(ctx context.Context, key string, value arrowbuf.Buffer) error
}

// DeviceMemory is a store in the memory of a device, such as a GPU. It is zarr-python's
// GpuMemoryStore. Use [NewDeviceMemory].
type DeviceMemory struct {
	device arrowbuf.Device

	mu     sync.RWMutex
	values map[string]arrowbuf.Buffer // never modified
	closed bool
}

var _ BufferStore = (*DeviceMemory)(nil)

// NewDeviceMemory returns an empty store in the memory of a device. The caller must Close
// it to release the memory.
func NewDeviceMemory(device arrowbuf.Device) (*DeviceMemory, error) {
	if device == nil {
		return nil, errors.New("store.NewDeviceMemory: nil device")
	}
	return &DeviceMemory{device: device, values: map[string]arrowbuf.Buffer{}}, nil
}

func (m *DeviceMemory) takesRoundTrips() bool { return false }

// String names the device.
func (m *DeviceMemory) String() string { return "memory of " + m.device.String() }

// Device returns the device of the values.
func (m *DeviceMemory) Device() arrowbuf.Device { return m.device }

var errMemoryClosed = errors.New("store is closed")

// checkLocked returns an error if an operation on a key cannot begin.
func (m *DeviceMemory) checkLocked(ctx context.Context, err error) error {
	if err := contextErr(ctx, err); err != nil {
		return err
	}
	if m.closed {
		return errMemoryClosed
	}
	return nil
}

// GetBuffer returns a slice of a stored buffer.
func (m *DeviceMemory) GetBuffer(ctx context.Context, key string, r Range) (arrowbuf.Buffer, error) {
	value, err := m.slice(ctx, key, r)
	if err != nil {
		return nil, fmt.Errorf("store.GetBuffer: %v: key %q: %w", m, key, err)
	}
	return value, nil
}

func (m *DeviceMemory) slice(ctx context.Context, key string, r Range) (arrowbuf.Buffer, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.checkLocked(ctx, CheckKey(key)); err != nil {
		return nil, err
	}
	value, ok := m.values[key]
	if !ok {
		return nil, ErrNotFound
	}
	start, end, err := r.Resolve(value.Len())
	if err != nil {
		return nil, err
	}
	return value.Slice(start, end-start)
}

// Get copies a value to the host.
func (m *DeviceMemory) Get(ctx context.Context, key string, r Range) ([]byte, error) {
	value, err := m.slice(ctx, key, r)
	if err != nil {
		return nil, fmt.Errorf("store.Get: %v: key %q: %w", m, key, err)
	}
	defer value.Release()
	out := make([]byte, value.Len())
	if _, err := value.CopyToHost(out, 0); err != nil {
		return nil, fmt.Errorf("store.Get: %v: key %q: %w", m, key, err)
	}
	return out, nil
}

// Size returns the length of a value.
func (m *DeviceMemory) Size(ctx context.Context, key string) (int64, error) {
	value, err := m.slice(ctx, key, Range{})
	if err != nil {
		return 0, fmt.Errorf("store.Size: %v: key %q: %w", m, key, err)
	}
	defer value.Release()
	return value.Len(), nil
}

// Set copies a value to the device.
func (m *DeviceMemory) Set(ctx context.Context, key string, value []byte) error {
	return m.set(ctx, "Set", key, int64(len(value)), true, func(to arrowbuf.Buffer) error {
		_, err := to.CopyFromHost(value, 0)
		return err
	})
}

// SetIfNotExists copies a value to the device unless the key has one.
func (m *DeviceMemory) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	return m.set(ctx, "SetIfNotExists", key, int64(len(value)), false, func(to arrowbuf.Buffer) error {
		_, err := to.CopyFromHost(value, 0)
		return err
	})
}

// SetBuffer stores a copy of a buffer.
func (m *DeviceMemory) SetBuffer(ctx context.Context, key string, value arrowbuf.Buffer) error {
	if value == nil {
		return fmt.Errorf("store.SetBuffer: %v: key %q: nil buffer", m, key)
	}
	return m.set(ctx, "SetBuffer", key, value.Len(), true, func(to arrowbuf.Buffer) error {
		_, err := to.CopyFromDevice(value, 0)
		return err
	})
}

func (m *DeviceMemory) set(ctx context.Context, method, key string, n int64, replace bool, fill func(arrowbuf.Buffer) error) error {
	err := contextErr(ctx, CheckKey(key))
	if err == nil {
		var value arrowbuf.Buffer
		if value, err = m.device.Alloc(n); err == nil {
			if err = fill(value); err == nil {
				err = m.put(ctx, key, value, replace)
			}
			if err != nil {
				value.Release()
			}
		}
	}
	if err != nil {
		return fmt.Errorf("store.%s: %v: key %q: %w", method, m, key, err)
	}
	return nil
}

// put takes the caller's reference to value, unless it returns an error.
func (m *DeviceMemory) put(ctx context.Context, key string, value arrowbuf.Buffer, replace bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkLocked(ctx, nil); err != nil {
		return err
	}
	old := m.values[key]
	if old != nil && !replace {
		return ErrExists
	}
	m.values[key] = value
	if old != nil {
		old.Release()
	}
	return nil
}

// Delete releases a value.
func (m *DeviceMemory) Delete(ctx context.Context, key string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkLocked(ctx, CheckKey(key)); err != nil {
		return fmt.Errorf("store.Delete: %v: key %q: %w", m, key, err)
	}
	m.releaseLocked(func(k string) bool { return k == key })
	return nil
}

// DeleteAll releases the values under a prefix.
func (m *DeviceMemory) DeleteAll(ctx context.Context, prefix string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.checkLocked(ctx, CheckPrefix(prefix)); err != nil {
		return fmt.Errorf("store.DeleteAll: %v: prefix %q: %w", m, prefix, err)
	}
	m.releaseLocked(func(k string) bool { return k == prefix || isUnder(k, prefix) })
	return nil
}

func (m *DeviceMemory) releaseLocked(which func(key string) bool) {
	maps.DeleteFunc(m.values, func(key string, value arrowbuf.Buffer) bool {
		if !which(key) {
			return false
		}
		value.Release()
		return true
	})
}

// List returns the keys under a prefix.
func (m *DeviceMemory) List(ctx context.Context, prefix string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if err := m.checkLocked(ctx, CheckPrefix(prefix)); err != nil {
		return nil, fmt.Errorf("store.List: %v: prefix %q: %w", m, prefix, err)
	}
	var keys []string
	for key := range m.values {
		if isUnder(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Close releases all values. Buffers that GetBuffer returned stay valid.
func (m *DeviceMemory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.releaseLocked(func(string) bool { return true })
	m.closed = true
	return nil
}
