package handle

import (
	"encoding"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/quiver-gpu/quiver/cudabuf"
)

const (
	version   = 1
	fixedSize = 88
	withEvent = 1 // a flag
)

var (
	_ encoding.BinaryMarshaler   = (*Descriptor)(nil)
	_ encoding.BinaryUnmarshaler = (*Descriptor)(nil)
)

// MarshalBinary writes the descriptor in at most 224 bytes.
func (d *Descriptor) MarshalBinary() ([]byte, error) {
	if err := d.Validate(); err != nil {
		return nil, err
	}
	var flags byte
	if d.Event != nil {
		flags = withEvent
	}
	b := append(make([]byte, 0, fixedSize+2*64+8), version, byte(d.Mechanism), flags, 0)
	b = binary.LittleEndian.AppendUint32(b, d.Exporter.PID)
	for _, n := range []int64{d.AllocationSize, d.Offset, d.Length} {
		b = binary.LittleEndian.AppendUint64(b, uint64(n))
	}
	b = append(b, d.Device[:]...)
	b = append(b, d.Exporter.Machine[:]...)
	for _, n := range []uint64{d.Exporter.Namespace, d.Exporter.Start, d.Sequence} {
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	if d.Mechanism.hasHandle() {
		b = append(b, d.Handle[:]...)
	}
	if d.Mechanism == CUDAPool {
		b = binary.LittleEndian.AppendUint64(b, d.Pool)
	}
	if d.Event != nil {
		b = append(b, d.Event[:]...)
	}
	return b, nil
}

// UnmarshalBinary reads what MarshalBinary wrote. Anything else is cudabuf.ErrHandleForm, and
// leaves the descriptor as it was.
func (d *Descriptor) UnmarshalBinary(b []byte) error {
	if len(b) < fixedSize {
		return fmt.Errorf("%w: %d bytes, at least %d expected", cudabuf.ErrHandleForm, len(b), fixedSize)
	}
	if b[0] != version {
		return fmt.Errorf("%w: version %d, not %d", cudabuf.ErrHandleForm, b[0], version)
	}
	read := Descriptor{Mechanism: Mechanism(b[1])}
	if !read.Mechanism.Valid() {
		return fmt.Errorf("%w: %v", cudabuf.ErrHandleForm, read.Mechanism)
	}
	if b[2] > withEvent || b[3] != 0 {
		return fmt.Errorf("%w: flags %#x, reserved byte %#x", cudabuf.ErrHandleForm, b[2], b[3])
	}
	hasEvent := b[2] == withEvent
	want := fixedSize
	if read.Mechanism.hasHandle() {
		want += len(read.Handle)
	}
	if read.Mechanism == CUDAPool {
		want += 8
	}
	if hasEvent {
		want += len(cudabuf.EventHandle{})
	}
	if len(b) != want {
		return fmt.Errorf("%w: %d bytes, %d expected of %v", cudabuf.ErrHandleForm, len(b), want, read.Mechanism)
	}
	read.Exporter.PID = binary.LittleEndian.Uint32(b[4:])
	for i, n := range []*int64{&read.AllocationSize, &read.Offset, &read.Length} {
		u := binary.LittleEndian.Uint64(b[8+8*i:])
		if u > math.MaxInt64 {
			return fmt.Errorf("%w: a size of %d bytes", cudabuf.ErrHandleForm, u)
		}
		*n = int64(u)
	}
	copy(read.Device[:], b[32:])
	copy(read.Exporter.Machine[:], b[48:])
	for i, n := range []*uint64{&read.Exporter.Namespace, &read.Exporter.Start, &read.Sequence} {
		*n = binary.LittleEndian.Uint64(b[64+8*i:])
	}
	rest := b[fixedSize:]
	if read.Mechanism.hasHandle() {
		rest = rest[copy(read.Handle[:], rest):]
	}
	if read.Mechanism == CUDAPool {
		read.Pool, rest = binary.LittleEndian.Uint64(rest), rest[8:]
	}
	if hasEvent {
		read.Event = new(cudabuf.EventHandle)
		copy(read.Event[:], rest)
	}
	if err := read.Validate(); err != nil {
		return err
	}
	*d = read
	return nil
}
