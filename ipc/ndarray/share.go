package ndarray

import (
	"context"
	"fmt"

	"github.com/quiver-gpu/quiver/arrowbuf"
	"github.com/quiver-gpu/quiver/ipc"
	"github.com/quiver-gpu/quiver/ndview"
)

// Publish publishes an array of any dtype, shape and strides, and takes a reference to
// its buffer, not to the array. The caller must not write to the array while it is
// published, unless readers may see part of the write.
//
// Only the array's extent is published, see the package. Memory of
// cudabuf.Device.NewFDBuffer and NewIPCBuffer is shared in place, and so is all memory
// with ipc.ExposeAllocation; other memory is copied when the first client asks for it.
//
// The error wraps ipc.ErrExists if the name is in use, ndview.ErrNil if the array is
// nil, and ErrLayout if the array has more than 255 axes.
func Publish(c *ipc.Catalog, name string, a *ndview.NDBuffer, options ...ipc.PublishOption) error {
	if c == nil {
		return fmt.Errorf("ndarray.Publish: array %q: nil catalog: %w", name, ndview.ErrNil)
	}
	layout, extent, err := Of(a)
	if err != nil {
		return fmt.Errorf("ndarray.Publish: array %q: %w", name, err)
	}
	defer extent.Release()
	encoded, err := layout.MarshalBinary()
	if err != nil {
		return fmt.Errorf("ndarray.Publish: array %q: %w", name, err)
	}
	return c.PublishArray(name, encoded, extent, options...)
}

// Open returns a read-only view of an array that a server publishes, with its dtype,
// shape and strides. The caller must release it; the lease ends when the last view of
// the memory is released and no stream uses it.
//
// The array is on the GPU of the server, if the client has that GPU, and otherwise a
// copy on the host. An array without elements is on the host. If the server is in this
// process, the array shows the published memory itself.
//
// The error wraps ipc.ErrNotFound or ipc.ErrWrongKind if no such array is published.
// It wraps ipc.ErrFault if the server sends an invalid layout, or elements outside the
// memory.
func Open(ctx context.Context, c *ipc.Client, name string) (*ndview.NDBuffer, error) {
	if c == nil {
		return nil, fmt.Errorf("ndarray.Open: array %q: nil client: %w", name, ndview.ErrNil)
	}
	encoded, buffer, err := c.Array(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("ndarray.Open: array %q: %w", name, err)
	}
	defer buffer.Release()
	a, err := decode(encoded, buffer)
	if err != nil {
		return nil, fmt.Errorf("ndarray.Open: array %q: %w: %w", name, ipc.ErrFault, err)
	}
	return a, nil
}

func decode(encoded []byte, b arrowbuf.Buffer) (*ndview.NDBuffer, error) {
	var layout Layout
	if err := layout.UnmarshalBinary(encoded); err != nil {
		return nil, err
	}
	return layout.Array(b)
}
