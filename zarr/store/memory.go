package store

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Memory is a store in memory, for tests and temporary hierarchies. Use [NewMemory].
type Memory struct {
	mu     sync.RWMutex
	values map[string][]byte // values are immutable
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store.
func NewMemory() *Memory { return &Memory{values: map[string][]byte{}} }

func (m *Memory) takesRoundTrips() bool { return false }

// String returns "memory".
func (m *Memory) String() string { return "memory" }

// Get returns a range of the stored value without a copy.
func (m *Memory) Get(ctx context.Context, key string, r Range) ([]byte, error) {
	value, err := m.get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("store.Get: %w", err)
	}
	start, end, err := r.Resolve(int64(len(value)))
	if err != nil {
		return nil, fmt.Errorf("store.Get: key %q: %w", key, err)
	}
	return value[start:end:end], nil
}

// Size returns the length of a value.
func (m *Memory) Size(ctx context.Context, key string) (int64, error) {
	value, err := m.get(ctx, key)
	if err != nil {
		return 0, fmt.Errorf("store.Size: %w", err)
	}
	return int64(len(value)), nil
}

func (m *Memory) get(ctx context.Context, key string) ([]byte, error) {
	if err := contextErr(ctx, CheckKey(key)); err != nil {
		return nil, fmt.Errorf("key %q: %w", key, err)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	value, ok := m.values[key]
	if !ok {
		return nil, fmt.Errorf("key %q: %w", key, ErrNotFound)
	}
	return value, nil
}

// Set stores a copy of value.
func (m *Memory) Set(ctx context.Context, key string, value []byte) error {
	if err := contextErr(ctx, CheckKey(key)); err != nil {
		return fmt.Errorf("store.Set: key %q: %w", key, err)
	}
	m.put(key, bytes.Clone(value))
	return nil
}

// SetIfNotExists stores a copy of value unless the key has a value.
func (m *Memory) SetIfNotExists(ctx context.Context, key string, value []byte) error {
	if err := contextErr(ctx, CheckKey(key)); err != nil {
		return fmt.Errorf("store.SetIfNotExists: key %q: %w", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.values[key]; ok {
		return fmt.Errorf("store.SetIfNotExists: key %q: %w", key, ErrExists)
	}
	m.values[key] = bytes.Clone(value)
	return nil
}

func (m *Memory) put(key string, value []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.values[key] = value
}

// Create returns a Writer that buffers the value until Commit.
func (m *Memory) Create(ctx context.Context, key string) (Writer, error) {
	if err := contextErr(ctx, CheckKey(key)); err != nil {
		return nil, fmt.Errorf("store.Create: key %q: %w", key, err)
	}
	return &bufferedWriter{key: key, set: func(value []byte) error { m.put(key, value); return nil }}, nil
}

// Delete deletes a value.
func (m *Memory) Delete(ctx context.Context, key string) error {
	if err := contextErr(ctx, CheckKey(key)); err != nil {
		return fmt.Errorf("store.Delete: key %q: %w", key, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.values, key)
	return nil
}

// DeleteAll deletes everything under a prefix.
func (m *Memory) DeleteAll(ctx context.Context, prefix string) error {
	if err := contextErr(ctx, CheckPrefix(prefix)); err != nil {
		return fmt.Errorf("store.DeleteAll: prefix %q: %w", prefix, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	maps.DeleteFunc(m.values, func(key string, _ []byte) bool { return key == prefix || isUnder(key, prefix) })
	return nil
}

// List returns all keys under a prefix.
func (m *Memory) List(ctx context.Context, prefix string) ([]string, error) {
	if err := contextErr(ctx, CheckPrefix(prefix)); err != nil {
		return nil, fmt.Errorf("store.List: prefix %q: %w", prefix, err)
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	var keys []string
	for key := range m.values {
		if isUnder(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys, nil
}

// Move renames a prefix.
func (m *Memory) Move(ctx context.Context, from, to string) error {
	if err := contextErr(ctx, checkMove(from, to)); err != nil {
		return fmt.Errorf("store.Move: %q to %q: %w", from, to, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	moved := map[string][]byte{}
	for key, value := range m.values {
		switch {
		case isUnder(key, from):
			moved[to+key[len(from):]] = value
		case key == to || isUnder(key, to):
			return fmt.Errorf("store.Move: %q to %q: %w", from, to, ErrExists)
		}
	}
	if len(moved) == 0 {
		return fmt.Errorf("store.Move: %q to %q: %w", from, to, ErrNotFound)
	}
	maps.DeleteFunc(m.values, func(key string, _ []byte) bool { return isUnder(key, from) })
	maps.Copy(m.values, moved)
	return nil
}
