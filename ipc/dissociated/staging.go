package dissociated

import (
	"fmt"
	"io"

	"github.com/quiver-gpu/quiver/arrowbuf"
)

// writer writes buffers of any device to a stream. What the host does not reach
// goes through pinned memory, which it keeps for the next buffer.
type writer struct {
	to     io.Writer
	dev    arrowbuf.Device
	pinned []byte
}

func (w *writer) write(b arrowbuf.Buffer) error {
	if host, ok := arrowbuf.HostBytes(b); ok {
		_, err := w.to.Write(host)
		return err
	}
	if err := w.stage(b); err != nil {
		return err
	}
	for at := int64(0); at < b.Len(); {
		piece := w.pinned[:min(int64(len(w.pinned)), b.Len()-at)]
		if _, err := b.CopyToHost(piece, at); err != nil {
			return err
		}
		if _, err := w.to.Write(piece); err != nil {
			return err
		}
		at += int64(len(piece))
	}
	return nil
}

// stage has pinned memory of the buffer's device ready.
func (w *writer) stage(b arrowbuf.Buffer) (err error) {
	if dev := b.Device(); w.dev != dev || int64(len(w.pinned)) < min(staged, b.Len()) {
		w.free()
		if w.pinned, err = pinned(dev, min(staged, b.Len())); err != nil {
			return err
		}
		w.dev = dev
	}
	return nil
}

func (w *writer) free() {
	if w.pinned != nil {
		w.dev.HostAllocator().Free(w.pinned)
		w.pinned = nil
	}
}

// fill reads all of a buffer, on any device, from a stream.
func fill(b arrowbuf.Buffer, from io.Reader) error {
	if host, ok := arrowbuf.HostBytes(b); ok {
		_, err := io.ReadFull(from, host)
		return err
	}
	memory, err := pinned(b.Device(), min(staged, b.Len()))
	if err != nil {
		return err
	}
	defer b.Device().HostAllocator().Free(memory)
	for at := int64(0); at < b.Len(); {
		piece := memory[:min(int64(len(memory)), b.Len()-at)]
		if _, err := io.ReadFull(from, piece); err != nil {
			return err
		}
		if _, err := b.CopyFromHost(piece, at); err != nil {
			return err
		}
		at += int64(len(piece))
	}
	return nil
}

// pinned takes memory of a device's HostAllocator, which reports by a panic that
// it has none.
func pinned(dev arrowbuf.Device, n int64) (b []byte, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			cause, ok := failure.(error)
			if !ok {
				panic(failure)
			}
			err = fmt.Errorf("pinned memory: %w", cause)
		}
	}()
	return dev.HostAllocator().Allocate(int(n)), nil
}
