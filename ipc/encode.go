package ipc

import (
	"math"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"github.com/quiver-gpu/quiver/arrowbuf/arrowipc"
	"github.com/quiver-gpu/quiver/cudabuf"
	"github.com/quiver-gpu/quiver/ipc/handle"
)

// encoding holds the Arrow IPC messages of an object: its dictionaries, then the
// record batch. The bodies refer to the object's memory.
type encoded struct {
	messages []message
	gpu      *cudabuf.Device // nil if all memory is on the host
	release  func()
}

type message struct {
	metadata []byte // empty for a bare buffer
	length   int64  // of the body, with padding
	body     []piece
}

// bodyPart is a part of a message body, with the mechanisms that share its memory
// in place.
type piece struct {
	arrowipc.Part
	ways handle.Mechanisms
}

// encode encodes an object, once. The caller holds a reference to the object.
func (it *item) encode() (*encoded, error) {
	it.encoding.Do(func() { it.encoded, it.encodeErr = it.encodeNow() })
	return it.encoded, it.encodeErr
}

// newEncoding encodes the batch or buffer and finds the mechanisms of its memory.
func (it *item) encodeNow() (*encoded, error) {
	e := &encoded{release: func() {}}
	if it.batch == nil {
		m := message{length: it.buffer.Len()}
		if it.buffer.Len() > 0 {
			m.body = []piece{{Part: arrowipc.Part{Buffer: it.buffer}}}
		}
		e.messages = []message{m}
	} else if err := e.batch(it); err != nil {
		return nil, err
	}
	var known []allocation
	for i := range e.messages {
		for j := range e.messages[i].body {
			p := &e.messages[i].body[j]
			buffer, ok := p.Buffer.(*cudabuf.Buffer)
			if !ok {
				continue
			}
			if e.gpu == nil {
				e.gpu = buffer.Device().(*cudabuf.Device)
			}
			if e.gpu == buffer.Device() && (it.batch == nil || buffer.Address()%8 == 0) {
				p.ways, known = waysOf(buffer, it.pooled, known)
			}
		}
	}
	return e, nil
}

// addBatch encodes a record batch.
func (e *encoded) batch(it *item) error {
	messages, err := messagesOf(it.batch)
	if err != nil {
		return err
	}
	e.release = func() {
		for i := range e.messages {
			for _, p := range e.messages[i].body {
				p.Buffer.Release()
			}
		}
		for _, m := range messages {
			m.Release()
		}
	}
	for _, m := range messages {
		one := message{metadata: m.Metadata, length: m.BodyLength}
		parts, err := m.Parts()
		if err != nil {
			e.release()
			return err
		}
		for _, p := range parts {
			one.body = append(one.body, piece{Part: p})
		}
		e.messages = append(e.messages, one)
	}
	return nil
}

// encodeMessages encodes a batch with all dictionaries that it needs.
func messagesOf(b arrow.RecordBatch) ([]*arrowipc.Message, error) {
	if !slices.ContainsFunc(b.Schema().Fields(), func(f arrow.Field) bool { return hasDictionary(f.Type) }) {
		m, err := arrowipc.EncodeRecordBatch(b)
		return []*arrowipc.Message{m}, err
	}
	encoder, err := arrowipc.NewEncoder(b.Schema())
	if err != nil {
		return nil, err
	}
	defer encoder.Release()
	return encoder.Encode(b)
}

func hasDictionary(t arrow.DataType) bool {
	switch t := t.(type) {
	case *arrow.DictionaryType:
		return true
	case arrow.ExtensionType:
		return hasDictionary(t.StorageType())
	case arrow.NestedType:
		return slices.ContainsFunc(t.Fields(), func(f arrow.Field) bool { return hasDictionary(f.Type) })
	}
	return false
}

// allocation is memory whose mechanisms are known.
type allocation struct {
	base uintptr
	size int64
	ways handle.Mechanisms
}

// inPlaceMechanisms returns the mechanisms that share the memory of a buffer in
// place. It asks the driver once per allocation. Memory of a SharedPool needs no
// driver call.
func waysOf(buffer *cudabuf.Buffer, pooled bool, known []allocation) (handle.Mechanisms, []allocation) {
	if buffer.SharedPool() != nil {
		if pooled {
			return handle.Mechanisms{handle.CUDAPool}, known
		}
		return nil, known
	}
	for _, a := range known {
		if buffer.Address()-a.base < uintptr(a.size) {
			return a.ways, known
		}
	}
	a := allocation{base: buffer.Address(), size: buffer.Len()}
	for _, m := range []handle.Mechanism{handle.CUDAFD, handle.CUDAIPC} {
		b := block{mechanism: m}
		if b.export(buffer, pooled) == nil {
			a = allocation{b.base, b.size, append(a.ways, m)}
			b.free()
		}
	}
	return a.ways, append(known, a)
}

// inPlace returns the memory of the part if mechanism m shares it in place.
func (p *piece) native(m handle.Mechanism) (*cudabuf.Buffer, bool) {
	for _, way := range p.ways {
		if way == m {
			return p.Buffer.(*cudabuf.Buffer), true
		}
	}
	return nil, false
}

// packed reports whether the whole body is copied, so that it stays contiguous.
func (m *message) packs(way handle.Mechanism) bool {
	for i := range m.body {
		if _, native := m.body[i].native(way); native {
			return false
		}
	}
	return true
}

// inPlaceBytes returns the number of bytes that mechanism m shares in place.
func (e *encoded) native(m handle.Mechanism) (n int64) {
	if m == handle.Local {
		return math.MaxInt64
	}
	for i := range e.messages {
		for j := range e.messages[i].body {
			if b, ok := e.messages[i].body[j].native(m); ok {
				n += b.Len()
			}
		}
	}
	return n
}

// deviceName returns the name of the device that holds the object.
func (it *item) device() string {
	if it.batch == nil {
		return it.buffer.Device().String()
	}
	return deviceOf(it.batch).String()
}
